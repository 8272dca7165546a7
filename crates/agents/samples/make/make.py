"""Makes the sample files that are not Markdown from the Markdown in `source`.

    pip install python-docx reportlab
    python make.py

The fonts are those of Debian's `fonts-nanum` (SIL Open Font License); the PDF carries only the glyphs it uses.
The files are the same bytes every time.
"""

import datetime
import io
import pathlib
import re
import zipfile
from xml.sax.saxutils import escape

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent
FONT = "/usr/share/fonts/truetype/nanum/NanumGothic.ttf"
BOLD = "/usr/share/fonts/truetype/nanum/NanumGothicBold.ttf"
DAY = (2026, 1, 1, 0, 0, 0)


def blocks(text):
    """Headings, paragraphs and tables of a Markdown text, as (kind, content)."""
    for part in re.split(r"\n\s*\n", text.strip()):
        lines = part.strip("\n").split("\n")
        if lines[0].startswith("#"):
            level = len(lines[0]) - len(lines[0].lstrip("#"))
            yield f"h{level}", lines[0].lstrip("# ")
            lines = lines[1:]
        if not lines:
            continue
        if lines[0].startswith("|"):
            rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "---" not in line]
            yield "table", rows
        else:
            for line in lines:
                yield "p", line.strip()


def repacked(data):
    """The same zip with fixed dates, so that nothing changes from run to run."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in sorted(old.namelist(), key=lambda name: (name != "[Content_Types].xml", name)):
            entry = zipfile.ZipInfo(name, DAY)
            entry.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(entry, old.read(name))
    return out.getvalue()


def docx(text):
    from docx import Document
    from docx.oxml.ns import qn

    document = Document()
    document.core_properties.created = document.core_properties.modified = datetime.datetime(*DAY)
    document.core_properties.author = "Doran"
    style = document.styles["Normal"]
    style.font.name = "NanumGothic"
    style.element.rPr.rFonts.set(qn("w:eastAsia"), "NanumGothic")
    for kind, content in blocks(text):
        if kind == "table":
            table = document.add_table(rows=0, cols=len(content[0]))
            for row in content:
                for cell, words in zip(table.add_row().cells, row):
                    cell.text = words
        elif kind == "p":
            document.add_paragraph(content)
        else:
            document.add_heading(content, level=int(kind[1:]))
            if kind == "h1":
                document.core_properties.title = content
    out = io.BytesIO()
    document.save(out)
    return repacked(out.getvalue())


HP = "http://www.hancom.co.kr/hwpml/2011/paragraph"
HS = "http://www.hancom.co.kr/hwpml/2011/section"
HH = "http://www.hancom.co.kr/hwpml/2011/head"
HC = "http://www.hancom.co.kr/hwpml/2011/core"
XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'


def hwpx(text):
    """A plain HWPX: a header with outline shapes and one section."""
    title = next(content for kind, content in blocks(text) if kind == "h1")
    shapes = '<hh:paraPr id="0"><hh:heading type="NONE" idRef="0" level="0"/></hh:paraPr>' + "".join(
        f'<hh:paraPr id="{level}"><hh:heading type="OUTLINE" idRef="0" level="{level - 1}"/></hh:paraPr>'
        for level in range(1, 7)
    )
    header = (
        f'{XML}<hh:head xmlns:hh="{HH}" version="1.31" secCnt="1"><hh:refList>'
        f'<hh:paraProperties itemCnt="7">{shapes}</hh:paraProperties></hh:refList></hh:head>'
    )

    def paragraph(words, shape=0):
        return f'<hp:p id="0" paraPrIDRef="{shape}" styleIDRef="0"><hp:run charPrIDRef="0"><hp:t>{escape(words)}</hp:t></hp:run></hp:p>'

    def cell(words, row, column):
        return (
            f'<hp:tc><hp:subList>{paragraph(words)}</hp:subList><hp:cellAddr colAddr="{column}" rowAddr="{row}"/>'
            '<hp:cellSpan colSpan="1" rowSpan="1"/></hp:tc>'
        )

    body = ""
    for kind, content in blocks(text):
        if kind == "table":
            rows = "".join(
                "<hp:tr>" + "".join(cell(words, row, column) for column, words in enumerate(cells)) + "</hp:tr>"
                for row, cells in enumerate(content)
            )
            table = f'<hp:tbl id="1" rowCnt="{len(content)}" colCnt="{len(content[0])}">{rows}</hp:tbl>'
            body += f'<hp:p id="0" paraPrIDRef="0" styleIDRef="0"><hp:run charPrIDRef="0">{table}<hp:t/></hp:run></hp:p>'
        else:
            body += paragraph(content, 0 if kind == "p" else int(kind[1:]))
    section = f'{XML}<hs:sec xmlns:hs="{HS}" xmlns:hp="{HP}">{body}</hs:sec>'
    package = (
        f'{XML}<opf:package xmlns:opf="http://www.idpf.org/2007/opf/"><opf:metadata><opf:title>{escape(title)}</opf:title>'
        '<opf:language>ko</opf:language></opf:metadata><opf:manifest>'
        '<opf:item id="header" href="Contents/header.xml" media-type="application/xml"/>'
        '<opf:item id="section0" href="Contents/section0.xml" media-type="application/xml"/></opf:manifest>'
        '<opf:spine><opf:itemref idref="header"/><opf:itemref idref="section0"/></opf:spine></opf:package>'
    )
    container = (
        f'{XML}<ocf:container xmlns:ocf="urn:oasis:names:tc:opendocument:xmlns:container"><ocf:rootfiles>'
        '<ocf:rootfile full-path="Contents/content.hpf" media-type="application/hwpml-package+xml"/></ocf:rootfiles></ocf:container>'
    )
    version = f'{XML}<hv:HCFVersion xmlns:hv="http://www.hancom.co.kr/hwpml/2011/version" tagetApplication="WORDPROCESSOR" major="5" minor="1" micro="0" buildNumber="1"/>'
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, words in [
            ("mimetype", "application/hwp+zip"),
            ("version.xml", version),
            ("META-INF/container.xml", container),
            ("Contents/content.hpf", package),
            ("Contents/header.xml", header),
            ("Contents/section0.xml", section),
        ]:
            entry = zipfile.ZipInfo(name, DAY)
            entry.compress_type = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            file.writestr(entry, words)
    return out.getvalue()


def pdf(text):
    from reportlab.lib.pagesizes import A5
    from reportlab.lib.styles import ParagraphStyle
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont
    from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

    pdfmetrics.registerFont(TTFont("Nanum", FONT))
    pdfmetrics.registerFont(TTFont("NanumBold", BOLD))
    body = ParagraphStyle("body", fontName="Nanum", fontSize=10, leading=16, wordWrap="CJK", spaceAfter=8)
    parts = []
    for kind, content in blocks(text):
        if kind == "table":
            table = Table(content, hAlign="LEFT")
            table.setStyle(TableStyle([("FONT", (0, 0), (-1, -1), "Nanum", 10), ("GRID", (0, 0), (-1, -1), 0.5, "black")]))
            parts += [table, Spacer(1, 10)]
        elif kind == "p":
            parts.append(Paragraph(escape(content), body))
        else:
            size = {"h1": 16, "h2": 13}.get(kind, 11)
            if kind == "h2" and len(parts) > 6:
                parts += [PageBreak()] if "고장" in content else []
            style = ParagraphStyle(kind, fontName="NanumBold", fontSize=size, leading=size * 1.6, spaceBefore=8)
            parts.append(Paragraph(escape(content), style))
    out = io.BytesIO()
    title = next(content for kind, content in blocks(text) if kind == "h1")
    SimpleDocTemplate(out, pagesize=A5, title=title, author="Doran", invariant=1).build(parts)
    return out.getvalue()


def main():
    for name, make, to in [
        ("복리후생", hwpx, "ko/복리후생.hwpx"),
        ("인사", docx, "ko/인사.docx"),
        ("자산", pdf, "ko/자산.pdf"),
        ("용역계약서", docx, "contracts/용역계약서.docx"),
        ("표준용역계약서", hwpx, "contracts/표준용역계약서.hwpx"),
    ]:
        data = make((HERE / "source" / f"{name}.md").read_text(encoding="utf-8"))
        path = OUT / to
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        print(f"{to}: {len(data)} bytes")


if __name__ == "__main__":
    main()
