"""Runs the code cells of a notebook in order, in one interpreter and without Jupyter.

    python3 execute.py NOTEBOOK            compares what cells print with the outputs that are kept
    python3 execute.py --rewrite NOTEBOOK  keeps what they print now

Cells run in the current folder. Text that cells print is kept; pictures are not.
"""
import contextlib
import io
import json
import sys


def main(rewrite: bool, path: str) -> None:
    with open(path, encoding="utf-8") as f:
        notebook = json.load(f)
    names = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"{path}:{cell['id']}", "exec"), names)
        text = printed.getvalue()
        kept = "".join(line for output in cell["outputs"] for line in output["text"])
        if rewrite:
            cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": text.splitlines(True)}] if text else []
        elif text != kept:
            sys.exit(f"{path}, {cell['id']}: it prints\n{text}and the notebook has\n{kept}")
    if rewrite:
        with open(path, "w", encoding="utf-8") as f:
            json.dump(notebook, f, indent=1, ensure_ascii=False)
            f.write("\n")


if __name__ == "__main__":
    main("--rewrite" in sys.argv[1:-1], sys.argv[-1])
