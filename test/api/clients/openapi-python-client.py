"""Uses the mail and administration APIs through clients that openapi-python-client made of their documents."""

import base64
import os
from io import BytesIO

import mailroom_administration_client as administration
import mailroom_client as mail
from mailroom_administration_client.api.suppressions import add_suppression, list_suppressions
from mailroom_administration_client.models import AddSuppressionBody
from mailroom_client.api.attachments import get_attachment
from mailroom_client.api.mailboxes import list_mailboxes
from mailroom_client.api.messages import get_message, get_raw_message
from mailroom_client.api.sending import send_email
from mailroom_client.api.threads import get_thread, list_threads, search_mail, update_thread
from mailroom_client.models import Error, OutgoingAttachment, SendEmailFilesBody, SendRequest, SendResponse, ThreadPatch
from mailroom_client.types import File

URL, KEY = os.environ["MAILROOM_URL"], os.environ["MAILROOM_KEY"]
api = mail.AuthenticatedClient(base_url=f"{URL}/api/v1", token=KEY)

sender = list_mailboxes.sync(client=api).mailboxes[0].address
thread = list_threads.sync(client=api).threads[0]
assert search_mail.sync(client=api, q="signed has:attachment").threads[0].id == thread.id
of_thread = get_thread.sync(thread.id, client=api).messages[0].id
message = get_message.sync(of_thread, client=api).message
patched = update_thread.sync(thread.id, client=api, body=ThreadPatch(starred=True, add_labels=["Generated"]))
assert patched.thread.starred

pdf = get_attachment.sync(message.attachments[0].id, client=api).payload.read()
assert len(pdf) == message.attachments[0].size
assert b"Subject: Contract" in get_raw_message.sync(message.id, client=api).payload.read()

attached = OutgoingAttachment(filename="copy.pdf", content=base64.b64encode(pdf).decode())
request = SendRequest(
    from_=sender, to=["ben@example.net"], subject="base64", text="See the file.", attachments=[attached]
)
sent = send_email.sync(client=api, body=request, idempotency_key="once")
assert isinstance(sent, SendResponse), sent
assert send_email.sync(client=api, body=request, idempotency_key="once").message_id == sent.message_id
form = SendEmailFilesBody(
    request=SendRequest(from_=sender, to="ben@example.net", subject="form", text="See the file."),
    files=[File(payload=BytesIO(pdf), file_name="copy.pdf", mime_type="application/pdf")],
)
uploaded = send_email.sync(client=api, body=form)
assert isinstance(uploaded, SendResponse), uploaded
missing = get_thread.sync("none", client=api)
assert isinstance(missing, Error) and missing.code == "not_found"

admin = administration.AuthenticatedClient(base_url=f"{URL}/api/admin/v1", token=KEY)
add_suppression.sync(client=admin, body=AddSuppressionBody(address="zoe@example.net"))
listed = list_suppressions.sync(client=admin)
assert [one.address for one in listed.suppressions] == ["zoe@example.net"] and listed.next_cursor is None
