"""Text normalisation, shared by preparation, evaluation and the reference."""
import unicodedata

# Characters without width that carry no meaning for search.
DROPPED = dict.fromkeys([0x00AD, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2060, 0xFE0E, 0xFE0F, 0xFEFF])


def normalise(text):
    """NFKC, lower case, zero-width characters dropped, white space and controls to one space."""
    text = unicodedata.normalize("NFKC", text).lower().translate(DROPPED)
    text = "".join(" " if c.isspace() or unicodedata.category(c) == "Cc" else c for c in text)
    return " ".join(text.replace("\u2581", " ").split())
