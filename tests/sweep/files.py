"""Directories as data."""


def contents(root):
    """{relative path: bytes} of every file below a directory, hidden ones too."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
