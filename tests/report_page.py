"""A report page as tests read it: its headings, ids and tables."""

from html.parser import HTMLParser

from umimill.report import load_library, report
from umimill.summary import templates_in

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Reader(HTMLParser):
    """Checks nesting; collects ids, and tables as lists of rows of texts."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.tables, self.headings = [], [], {}, []
        self.table = None

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "div" and "table" in values.get("class", "").split():
            self.table = self.tables.setdefault(values["id"], [])
        if tag == "tr":
            self.table.append([])
        if tag in ("td", "th"):
            self.table[-1].append("")
        if tag == "h2":
            self.headings.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "td" in self.open or "th" in self.open:
            self.table[-1][-1] += data.strip()
        if "h2" in self.open:
            self.headings[-1] += data


def read(text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def made(make, folder, **options):
    metrics, page = folder / "metrics", folder / "report" / "index.html"
    sheet = make(metrics, **options)
    templates = report(metrics, sheet, page, page.with_name("samples.tsv"))
    loaded = [load_library(metrics / name, name, rows) for name, rows in sheet.items()]
    assert templates == sum(map(templates_in, loaded))
    return page.read_text(encoding="utf-8"), loaded


def whole(text):
    return int(text.replace(",", ""))
