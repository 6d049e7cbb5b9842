/** The guide before the operations: keys, errors, limits, retries, pages, tools for agents, signatures of webhooks. */
import type { ReactNode } from "react";
import { toSnakeCase } from "../mcp/tools.ts";
import { Code } from "./blocks.tsx";
import { type ApiDocument, endpointsOf } from "./document.ts";

interface Chapter {
  id: string;
  title: string;
  text: ReactNode;
  code: ReactNode;
}

const FAILURE = JSON.stringify({ error: "There is no such conversation", code: "not_found" }, null, 2);

const VERIFY = `import hashlib, hmac, time

def is_genuine(body, header, secret):
    # body: the bytes as they came, not parsed and written again
    signed = dict(part.split("=", 1) for part in header.split(","))
    if abs(time.time() - int(signed["t"])) > 300:
        return False
    text = signed["t"].encode() + b"." + body
    expected = hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, signed["v1"])`;

/** `origin`: the public origin. */
export function chaptersOf(document: ApiDocument, origin: string): Chapter[] {
  const base = document.servers[0].url;
  const codes = Object.values(document.components.responses).map(({ description }) => description);
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
      title: "Errors",
      text: (
        <>
          <p>
            A refusal is JSON with <code>error</code>, for people, which may change, and <code>code</code>, which is
            stable: branch on it. Only 401 says that a key is no good; 503 means a short break, so keep the key and try
            again.
          </p>
          <ul className="refusals">
            {codes.map((description) => (
              <li key={description}>{description}</li>
            ))}
          </ul>
        </>
      ),
      code: <Code title="404" language="json" text={FAILURE} />,
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
    {
      id: "agents",
      title: "AI agents (MCP)",
      text: (
        <>
          <p>
            The same operations are tools of a Model Context Protocol server (Streamable HTTP) at{" "}
            <code>{origin}/api/mcp</code>, with the same keys, limits and rules. An agent is shown the tools that its
            key's scopes allow, so give it no more than it needs: <code>read</code> and <code>write</code> let it draft
            what a person then sends.
          </p>
          <p className="tools">
            {endpointsOf(document).map(({ operation: { operationId } }) => (
              <a key={operationId} href={`#${operationId}`}>
                <code>{toSnakeCase(operationId)}</code>
              </a>
            ))}
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
    },
  ];
}

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
  code: <Code title="Checking a signature, in Python" language="python" text={VERIFY} />,
};

export function ChapterSection({ chapter: { id, title, text, code } }: { chapter: Chapter }) {
  return (
    <section id={id} data-find={title}>
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
