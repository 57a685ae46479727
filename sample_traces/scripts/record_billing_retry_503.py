"""A service is down for a moment; the agent tries again until it works.

First run: four times HTTP 503, then the invoice. Second run: a timeout once, then the invoice.
Errors of a service are not counted by the guard: repeating the call is the right thing to do.
"""

import json

from _model import Call, Say, ScriptedModel
from _traceloop_agent import run_agent, start

recording = start("billing_retry_503", service="billing-agent", version="2.0.7")


class ServiceError(RuntimeError):
    pass


DOWN = ServiceError("HTTP 503 Service Unavailable: the invoice store is restarting")
SLOW = ServiceError("HTTP 504 Gateway Timeout: the invoice store did not answer in time")
answers = iter([DOWN, DOWN, DOWN, DOWN, None, SLOW, None])


def find_customer(vat_id: str) -> str:
    """A customer and the latest invoices."""
    recording.work()
    return json.dumps({"customer": "Holm & Co", "invoices": ["INV-2093", "INV-1987"]})


def fetch_invoice(invoice_id: str) -> str:
    """Amount, date and state of an invoice."""
    recording.work(0.2, 0.6)
    error = next(answers)
    if error:
        raise error
    return json.dumps({"invoice": invoice_id, "eur": 1840.50, "due": "2026-11-30", "state": "open"})


def send_copy(invoice_id: str, email: str) -> str:
    """Send a copy of an invoice."""
    recording.work()
    return json.dumps({"sent": True, "to": email})


FIND = Call("find_customer", {"vat_id": "DK29188477"})
FIRST, SECOND = Call("fetch_invoice", {"invoice_id": "INV-2093"}), Call("fetch_invoice", {"invoice_id": "INV-1987"})
SCRIPTS = {
    "copy": [
        FIND, *[FIRST] * 5,
        Call("send_copy", {"invoice_id": "INV-2093", "email": "accounts@holm.example"}),
        Say("I sent a copy of INV-2093 (1,840.50 EUR, due on 30 November) to accounts@holm.example."),
    ],
    "state": [FIND, SECOND, SECOND, Say("INV-1987 is still open: 1,840.50 EUR, due on 30 November.")],
}
with ScriptedModel(SCRIPTS) as model:
    for script, prompt, session in (
        ("copy", "Please send us a copy of our latest invoice. VAT number DK29188477.", "mail-30418"),
        ("state", "Is INV-1987 paid? VAT number DK29188477.", "mail-30422"),
    ):
        run_agent(
            base_url=model.base_url, script=script, name="billing", workflow="answer_mail", model="gpt-4o",
            instructions="You answer mails about invoices.", prompt=prompt,
            tools=[find_customer, fetch_invoice, send_copy], properties={"session_id": session},
        )
recording.write()
