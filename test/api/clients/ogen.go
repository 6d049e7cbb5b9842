// Uses the mail and administration APIs through clients that ogen made of their documents.
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/textproto"
	"os"

	ht "github.com/ogen-go/ogen/http"

	"client/admin"
	"client/mail"
)

type mailKey struct{}

func (mailKey) Bearer(context.Context, mail.OperationName) (mail.Bearer, error) {
	return mail.Bearer{Token: os.Getenv("MAILROOM_KEY")}, nil
}

type adminKey struct{}

func (adminKey) Bearer(context.Context, admin.OperationName) (admin.Bearer, error) {
	return admin.Bearer{Token: os.Getenv("MAILROOM_KEY")}, nil
}

// must returns the answer of type T, or panics with whatever came instead.
func must[T any](answer any, err error) T {
	if err != nil {
		panic(err)
	}
	expected, ok := answer.(T)
	if !ok {
		panic(fmt.Sprintf("%T: %+v", answer, answer))
	}
	return expected
}

func check(holds bool, what string) {
	if !holds {
		panic(what)
	}
}

func main() {
	ctx, url := context.Background(), os.Getenv("MAILROOM_URL")
	api := must[*mail.Client](mail.NewClient(url+"/api/v1", mailKey{}))
	boxes := must[*mail.ListMailboxesOKHeaders](api.ListMailboxes(ctx))
	check(boxes.Response.Mailboxes[0].Access.Send, "no mailbox to send from")
	from := boxes.Response.Mailboxes[0].Address

	threads := must[*mail.ThreadListHeaders](api.ListThreads(ctx, mail.ListThreadsParams{}))
	thread := threads.Response.Threads[0]
	check(threads.XRateLimitRemaining > 0, "no rate")
	found := must[*mail.ThreadListHeaders](api.SearchMail(ctx, mail.SearchMailParams{Q: "signed has:attachment"}))
	check(found.Response.Threads[0].ID == thread.ID, "another conversation was found")
	detail := must[*mail.ThreadDetailHeaders](api.GetThread(ctx, mail.GetThreadParams{ID: thread.ID}))
	id := detail.Response.Messages[0].ID
	message := must[*mail.GetMessageOKHeaders](api.GetMessage(ctx, mail.GetMessageParams{ID: id})).Response.Message
	patched := must[*mail.UpdateThreadOKHeaders](api.UpdateThread(ctx, &mail.ThreadPatch{
		Starred:   mail.NewOptBool(true),
		AddLabels: []string{"Generated"},
	}, mail.UpdateThreadParams{ID: thread.ID}))
	check(patched.Response.Thread.Starred, "not starred")

	file := must[*mail.GetAttachmentOKHeaders](api.GetAttachment(ctx, mail.GetAttachmentParams{ID: message.Attachments[0].ID}))
	pdf := must[[]byte](io.ReadAll(file.Response))
	check(len(pdf) == message.Attachments[0].Size, "the attachment has another size")
	raw := must[*mail.GetRawMessageOKHeaders](api.GetRawMessage(ctx, mail.GetRawMessageParams{ID: id}))
	check(bytes.Contains(must[[]byte](io.ReadAll(raw.Response)), []byte("Subject: Contract")), "no message")

	request := mail.SendRequest{
		From:    from,
		To:      mail.NewStringArraySendRequestTo([]string{"ben@example.net"}),
		Subject: mail.NewOptString("base64"),
		Text:    mail.NewOptString("See the file."),
		Attachments: []mail.OutgoingAttachment{{
			Filename: mail.NewOptString("copy.pdf"),
			Content:  mail.NewOptString(base64.StdEncoding.EncodeToString(pdf)),
		}},
	}
	once := mail.SendEmailParams{IdempotencyKey: mail.NewOptString("once")}
	sent := must[*mail.SendResponseHeaders](api.SendEmail(ctx, &request, once))
	again := must[*mail.SendResponseHeaders](api.SendEmail(ctx, &request, once))
	check(again.Response.MessageId == sent.Response.MessageId, "sent twice")
	must[*mail.SendResponseHeaders](api.SendEmail(ctx, &mail.SendEmailReqMultipartFormData{
		Request: mail.SendRequest{
			From:    from,
			To:      mail.NewStringSendRequestTo("ben@example.net"),
			Subject: mail.NewOptString("form"),
			Text:    mail.NewOptString("See the file."),
		},
		Files: []ht.MultipartFile{{
			Name:   "copy.pdf",
			File:   bytes.NewReader(pdf),
			Header: textproto.MIMEHeader{"Content-Type": {"application/pdf"}},
		}},
	}, mail.SendEmailParams{}))
	must[*mail.Failure404Headers](api.GetThread(ctx, mail.GetThreadParams{ID: "none"}))

	administration := must[*admin.Client](admin.NewClient(url+"/api/admin/v1", adminKey{}))
	must[*admin.SuppressionHeaders](administration.AddSuppression(ctx, &admin.AddSuppressionReq{
		Address: "zoe@example.net",
	}, admin.AddSuppressionParams{}))
	list := must[*admin.ListSuppressionsOKHeaders](administration.ListSuppressions(ctx, admin.ListSuppressionsParams{}))
	check(list.Response.Suppressions[0].Address == "zoe@example.net" && list.Response.NextCursor.Null, "another list")
}
