"""`trueloop ui`: one local page that shows all runs of a folder, live. No torch, read-only, this machine only.

How a page is added, without touching the others:

1. `pages/NAME.py` with `data(library, query)`. It returns what `GET /api/NAME?run=...` answers: anything that JSON can
   hold (NaN and Inf become text). `library` gives the run's folder (`library.folder(query.text("run"))`), its row in
   the table of runs and its metrics as columns; `query` has the parameters. Read files by `bounded_files` only: a run
   folder is hostile input. Raise `NotARun` or `Misuse` with one sentence: the page shows it.
2. `static/pages/NAME.js` with `export async function show(root, route)`. It fills `root` (an empty element) and may
   return a function that is called when the page is left. `route.run` is the run's id, `route.query` a URLSearchParams.
   Modules import one another by name: `import { el } from "ui/dom.js"`.
     - `ui/dom.js`: `el(tag, attributes, ...children)` makes elements; strings become text, never HTML.
     - `ui/api.js`: `get(page, parameters)` fetches the data; `live(run, changed)` calls `changed(event)` whenever the
       files of a run change, and returns a function that ends it.
     - `ui/chart.js`: `chart(element, traces, layout)` draws with plotly in the colors of the style sheet.
     - `ui/format.js`: numbers, durations and dates as words.
3. One entry in `page_list.PAGES`. `place` says where the navigation has it: "top", "run" (a tab of each run) or "".

Its address is `#/NAME?...`, or `#/run/RUN/NAME?...` for a tab of a run (`#/run/RUN` is the tab `run`).
The content security policy allows our own files only: no inline script, no inline style attribute in markup
(`element.style.width = ...` is fine), nothing from other hosts. Colors are the variables of `report/style.css`.
"""
