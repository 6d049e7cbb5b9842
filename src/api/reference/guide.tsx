/** The guide before the operations: keys, errors, limits, retries, pages, tools for agents, signatures of webhooks. */
import type { ReactNode } from "react";
import { type ErrorCode, STATUS_OF_CODE } from "../../base/errors.ts";
import { Code, Prose, Snippets } from "./blocks.tsx";
import type { ApiDocument } from "./openapi-document.ts";
import { SIGNATURE_CHECKS } from "./snippets.ts";

interface Chapter {
  id: string;
  title: string;
  text: ReactNode;
  code: ReactNode;
  /** The code stands below the text, which needs the width. */
  isWide?: true;
}

const FAILURE = JSON.stringify({ error: "There is no such conversation", code: "not_found" }, null, 2);

/** Meaning of each error code, and advice for a program that gets it. */
const ADVICE: Readonly<Record<ErrorCode, { means: string; todo: string }>> = {
  bad_request: {
    means: "The request is malformed: a field is missing or invalid, a cursor is bad, or the body cannot be read.",
    todo: "Correct what `error` names. The same request fails again.",
  },
  unauthorized: {
    means: "The key is missing, wrong, revoked or expired, or its person has left.",
    todo: "Check the `Authorization` header. If it is right, the key has ended: get another.",
  },
  missing_scope: {
    means: "The key lacks the scope of this operation.",
    todo: "Use a key that has the scope.",
  },
  forbidden: {
    means: "The key's person may not do this, or the key's policy does not allow it, or the key is paused.",
    todo: "`error` says which. An owner or admin can change it.",
  },
  not_found: {
    means: "There is no such thing, or this key does not reach it.",
    todo: "Check the id, and the mailboxes that the key reaches.",
  },
  conflict: {
    means: "The request does not fit the present state: it exists already, or has changed since it was read.",
    todo: "Read it again and decide anew. With `Retry-After`, wait that long and repeat.",
  },
  idempotency_in_progress: {
    means: "The first request with this idempotency key is still running.",
    todo: "Wait as long as `Retry-After` says, then repeat with the same key.",
  },
  idempotency_key_reused: {
    means: "The idempotency key was used for another request.",
    todo: "Give each request a key of its own.",
  },
  payload_too_large: {
    means: "The body, the text or the attachments are too large.",
    todo: "Send less. `error` names the limit.",
  },
  unprocessable: {
    means: "The request is well-formed and cannot be acted on, such as mail to a suppressed address.",
    todo: "Correct what `error` names. Nothing was done.",
  },
  locked: {
    means: "Sending is paused for this mailbox or workspace.",
    todo: "`error` says why. An owner or admin resumes it; then repeat.",
  },
  rate_limited: {
    means: "Too many requests, or a sending limit is reached.",
    todo: "Wait as long as `Retry-After` says, then repeat.",
  },
  insufficient_storage: {
    means: "The mailbox is full.",
    todo: "Delete mail for good, or ask an admin for a larger quota.",
  },
  server_error: {
    means: "The server failed. 503 is brief: it is busy, stopping or out of disk.",
    todo: "Repeat with the same idempotency key, after `Retry-After` if there is one. If it goes on, give the operator `X-Request-Id`.",
  },
  upstream_failed: {
    means: "The outbound queue could not take the message. Nothing was sent.",
    todo: "Repeat later with the same idempotency key.",
  },
};

function ErrorCodes() {
  return (
    <table className="codes">
      <caption>Error codes</caption>
      <thead>
        <tr>
          <th scope="col">Code</th>
          <th scope="col">Means</th>
          <th scope="col">What to do</th>
        </tr>
      </thead>
      <tbody>
        {(Object.keys(ADVICE) as ErrorCode[]).map((code) => (
          <tr key={code} id={`error-${code}`}>
            <th scope="row">
              <code>{code}</code> <small>{code === "server_error" ? "500 or 503" : STATUS_OF_CODE[code]}</small>
            </th>
            <td>{ADVICE[code].means}</td>
            <td>
              <Prose>{ADVICE[code].todo}</Prose>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function buildGuideChapters(document: ApiDocument): Chapter[] {
  const base = document.servers[0].url;
  return [
    {
      id: "authentication",
      title: "Authentication",
      text: (
        <>
          <p>
            Every request carries an API key. An owner or admin makes keys in{" "}
            <a href="/settings/keys">settings, API keys</a>; a key is shown once and can be revoked at any time.
          </p>
          <p>
            To try what is on this page, press <b>Use my key</b> above: whoever is signed in as an owner or admin gets a
            key of their own for an hour, which the examples then have. It reads, and does more only if you choose so.
          </p>
          <p>
            A key acts for the person who made it and reaches the mailboxes that they reach, as their role is now. Its
            scopes say what it may do: <code>read</code> mail, <code>send</code> it, <code>write</code> to organise it
            and to draft, <code>admin</code> to administer the workspace. Ids of others' mail answer 404, as if they did
            not exist.
          </p>
        </>
      ),
      code: (
        <Code
          title="With a key"
          language="shell"
          text={`curl "${base}/mailboxes" \\\n  -H "Authorization: Bearer $MAILROOM_KEY"`}
        />
      ),
    },
    {
      id: "errors",
      isWide: true,
      title: "Errors",
      text: (
        <>
          <p>
            An error is JSON with <code>error</code>, for people, which may change, and <code>code</code>, which is
            stable: branch on it. All APIs and MCP have the same codes. Only 401 says that a key is not valid.
          </p>
          <ErrorCodes />
        </>
      ),
      code: <Code title="Response 404" language="json" text={FAILURE} />,
    },
    {
      id: "limits",
      title: "Limits",
      text: (
        <p>
          Requests are counted for each key and each source address. Every answer says in <code>X-RateLimit-Limit</code>{" "}
          how many a minute there may be for the key and in <code>X-RateLimit-Remaining</code> how many are left;{" "}
          <code>RateLimit</code> tells what the tighter of both rates leaves. Above that, and above the hourly limits of
          sending, the answer is 429 with the seconds to wait in <code>Retry-After</code>. Over MCP it is a result, or
          an error of JSON-RPC, that says the same.
        </p>
      ),
      code: (
        <Code
          title="Headers of an answer"
          language="shell"
          text={'X-RateLimit-Limit: 120\nX-RateLimit-Remaining: 117\nRateLimit: "source";r=57;t=42'}
        />
      ),
    },
    {
      id: "retries",
      title: "Sending once",
      text: (
        <p>
          Give <code>POST /send</code> and <code>POST /threads/{"{id}"}/reply</code> an <code>Idempotency-Key</code> of
          your choosing, one for each message. A request repeated with it within 24 hours is answered as the first time,
          with <code>Idempotency-Replayed: true</code>, and nothing is sent again. With another body it is 422; while
          the first still runs, 409. A refused request leaves the key unused.
        </p>
      ),
      code: null,
    },
    {
      id: "pages",
      title: "Pages",
      text: (
        <p>
          Lists of conversations end with <code>nextCursor</code>. Give it as <code>cursor</code>, with the same
          filters, for the next page; it is <code>null</code> on the last one. Reading never marks anything read.
        </p>
      ),
      code: null,
    },
  ];
}

/** The chapter before the tools. `origin`: the public origin. */
export const buildAgentsChapter = (origin: string): Chapter => ({
  id: "agents",
  title: "AI agents (MCP)",
  text: (
    <>
      <p>
        The same operations are tools of a Model Context Protocol server (Streamable HTTP) at{" "}
        <code>{origin}/api/mcp</code>, with the same keys, limits and rules. An agent is shown the tools that its key's
        scopes allow, so give it no more than it needs: <code>read</code> and <code>write</code> let it draft what a
        person then sends. A client that is given this address alone asks a person to let it in, by OAuth.
      </p>
    </>
  ),
  code: (
    <Code
      title="Claude Code"
      language="shell"
      text={`claude mcp add --transport http mailroom "${origin}/api/mcp" \\\n  --header "Authorization: Bearer $MAILROOM_KEY"`}
    />
  ),
});

/** The chapter before the events. */
export const VERIFYING: Chapter = {
  id: "signatures",
  title: "Receiving webhooks",
  text: (
    <>
      <p>
        A webhook is a POST to a URL of yours, registered in <a href="/settings/webhooks">settings, Webhooks</a> with
        the events it is told of. Answer any 2xx within 10 seconds. Anything else, a redirect too, is tried again: 7
        times in all, over about 21 hours. Deliveries may come twice and in any order, so act on each <code>id</code>{" "}
        once.
      </p>
      <p>
        Each attempt is signed. <code>X-Service-Signature</code> is keyed with the endpoint's secret as it is shown; any
        verifier of Standard Webhooks takes the <code>webhook-*</code> headers instead.
      </p>
    </>
  ),
  code: <Snippets of="signatures" what="Checking a signature" snippets={SIGNATURE_CHECKS} />,
};

export function ChapterSection({ chapter: { id, title, text, code, isWide } }: { chapter: Chapter }) {
  return (
    <section id={id} className={isWide && "wide"} data-find={title}>
      <div className="said">
        <h3>
          <a href={`#${id}`}>{title}</a>
        </h3>
        {text}
      </div>
      {code !== null && <div className="shown">{code}</div>}
    </section>
  );
}
