// Uses the mail and administration APIs through clients that oapi-codegen made of their documents.
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os"

	"client/admin"
	"client/mail"
)

func withKey(_ context.Context, request *http.Request) error {
	request.Header.Set("Authorization", "Bearer "+os.Getenv("MAILROOM_KEY"))
	return nil
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(holds bool, what string) {
	if !holds {
		panic(what)
	}
}

func ptr[T any](value T) *T { return &value }

func main() {
	ctx, url := context.Background(), os.Getenv("MAILROOM_URL")
	api := must(mail.NewClientWithResponses(url+"/api/v1", mail.WithRequestEditorFn(withKey)))
	from := must(api.ListMailboxesWithResponse(ctx)).JSON200.Mailboxes[0].Address
	thread := must(api.ListThreadsWithResponse(ctx, nil)).JSON200.Threads[0]
	found := must(api.SearchMailWithResponse(ctx, &mail.SearchMailParams{Q: "signed has:attachment"}))
	check(found.JSON200.Threads[0].Id == thread.Id, "another conversation was found")
	id := must(api.GetThreadWithResponse(ctx, thread.Id, nil)).JSON200.Messages[0].Id
	message := must(api.GetMessageWithResponse(ctx, id, nil)).JSON200.Message
	patched := must(api.UpdateThreadWithResponse(ctx, thread.Id, mail.ThreadPatch{
		Starred:   ptr(true),
		AddLabels: &[]string{"Generated"},
	}))
	check(patched.JSON200.Thread.Starred, "not starred")

	pdf := must(api.GetAttachmentWithResponse(ctx, message.Attachments[0].Id)).Body
	check(len(pdf) == message.Attachments[0].Size, "the attachment has another size")
	raw := must(api.GetRawMessageWithResponse(ctx, id)).Body
	check(bytes.Contains(raw, []byte("Subject: Contract")), "no message")

	request := mail.SendRequest{
		From:    from,
		Subject: ptr("base64"),
		Text:    ptr("See the file."),
		Attachments: &[]mail.OutgoingAttachment{{
			Filename: ptr("copy.pdf"),
			Content:  ptr(base64.StdEncoding.EncodeToString(pdf)),
		}},
	}
	if err := request.To.FromSendRequestTo1([]string{"ben@example.net"}); err != nil {
		panic(err)
	}
	once := mail.SendEmailParams{IdempotencyKey: ptr("once")}
	sent := must(api.SendEmailWithResponse(ctx, &once, request))
	check(sent.JSON202 != nil, string(sent.Body))
	again := must(api.SendEmailWithResponse(ctx, &once, request))
	check(again.JSON202.MessageId == sent.JSON202.MessageId, "sent twice")

	var form bytes.Buffer
	writer := multipart.NewWriter(&form)
	request.Subject, request.Attachments = ptr("form"), nil
	part := must(writer.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="request"`},
		"Content-Type":        {"application/json"},
	}))
	must(part.Write(must(json.Marshal(request))))
	must(must(writer.CreateFormFile("files", "copy.pdf")).Write(pdf))
	if err := writer.Close(); err != nil {
		panic(err)
	}
	uploaded := must(api.SendEmailWithBodyWithResponse(ctx, nil, writer.FormDataContentType(), &form))
	check(uploaded.JSON202 != nil, string(uploaded.Body))
	check(must(api.GetThreadWithResponse(ctx, "none", nil)).JSON404.Code == "not_found", "something was found")

	administration := must(admin.NewClientWithResponses(url+"/api/admin/v1", admin.WithRequestEditorFn(withKey)))
	added := must(administration.AddSuppressionWithResponse(ctx, nil, admin.AddSuppressionJSONRequestBody{
		Address: "zoe@example.net",
	}))
	check(added.JSON201 != nil, string(added.Body))
	list := must(administration.ListSuppressionsWithResponse(ctx, nil)).JSON200
	check(list.Suppressions[0].Address == "zoe@example.net" && list.NextCursor == nil, fmt.Sprintf("%+v", list))
}
