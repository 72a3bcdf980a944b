"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const number = head.classList.contains("number");
      const before = head.getAttribute("aria-sort");
      // Numbers are first asked for largest first, names from A to Z.
      const order = before ? (before === "ascending" ? "descending" : "ascending")
        : (number ? "descending" : "ascending");
      const sign = order === "ascending" ? 1 : -1;
      const value = (row) => row.cells[column].dataset.value;
      const compare = (a, b) => {
        if (!number) {
          const left = a.cells[column].textContent, right = b.cells[column].textContent;
          return sign * left.localeCompare(right, "en", { numeric: true });
        }
        const left = value(a), right = value(b);
        if (left === "" || right === "") return (left === "") - (right === "");
        return sign * (left - right);
      };
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort(compare));
    });
  });
}
