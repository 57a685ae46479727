"""A shop assistant opens one dead link after the other.

Every call is different, so no fingerprint repeats; what repeats is the error. The agent itself
is JavaScript (storefront_not_found.mjs, Vercel AI SDK); run this with NODE_PACKAGES naming the
folder where its packages are installed.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

from _model import Call, Say, ScriptedModel
from _writing import SCRIPTS, write_requests

PAGES = [f"https://shop.example/products/{number}" for number in (1841, 1842, 1850, 1866, 1902)]
script = [
    Call("search_products", {"query": "tent"}),
    *[Call("open_page", {"url": url}) for url in PAGES],
    Say("I am sorry, I cannot open our product pages at the moment."),
]
with tempfile.TemporaryDirectory() as folder, ScriptedModel({"storefront": script}) as model:
    out = Path(folder) / "spans.json"
    subprocess.run(
        ["node", str(SCRIPTS / "storefront_not_found.mjs")],
        cwd=os.environ["NODE_PACKAGES"], check=True, env=os.environ | {"LLM_URL": model.base_url, "OUT": str(out)},
    )
    write_requests("storefront_not_found", [json.loads(out.read_text(encoding="utf-8"))])
