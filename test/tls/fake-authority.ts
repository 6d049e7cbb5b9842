/**
 * A certificate authority in the process (RFC 8555), which believes every name at once and signs what it is asked to. A test
 * says where it answers something else.
 */
import "reflect-metadata";
import * as x509 from "@peculiar/x509";
import { atEndOfFile } from "../harness/end.ts";
import { makePair } from "../harness/peers/remote-mx.ts";

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const DAY_MS = 24 * 60 * 60_000;

export interface FakeAuthority {
  directory: string;
  /** The certificate to trust for its connections, PEM. */
  authority: string;
  /** The paths of its requests. */
  readonly asked: string[];
  /** The names of each order. */
  readonly orders: string[][];
  /** Ways in which the authority differs from a good one. */
  readonly does: {
    /** Gives the response to a request for a path instead. */
    answer?: ((path: string, at: (path: string) => string) => Response | object | undefined) | undefined;
    /** Names and times of the certificate in place of those asked for, and of three months from now. */
    sign?: ((names: string[]) => { names?: string[]; from?: number; until?: number }) | undefined;
    /** The chain for a certificate, PEM. */
    chain?: ((cert: string) => string) | undefined;
  };
}

const running = new Set<Bun.Server<undefined>>();
atEndOfFile(() => {
  for (const server of running) void server.stop(true);
  running.clear();
});

/** `now`: epoch ms. */
export async function startFakeAuthority(now: () => number): Promise<FakeAuthority> {
  const pair = await makePair("localhost");
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
  const asked: string[] = [];
  const orders: string[][] = [];
  const does: FakeAuthority["does"] = {};
  let signed = "";

  async function sign(csr: string): Promise<void> {
    const request = new x509.Pkcs10CertificateRequest(Buffer.from(csr, "base64url"));
    const ordered = orders.at(-1) ?? [];
    const { names = ordered, from = now() - DAY_MS, until = now() + 90 * DAY_MS } = does.sign?.(ordered) ?? {};
    const cert = await x509.X509CertificateGenerator.create({
      subject: "CN=",
      issuer: "CN=An authority",
      serialNumber: `01${Buffer.from(crypto.getRandomValues(new Uint8Array(8))).toString("hex")}`,
      notBefore: new Date(from),
      notAfter: new Date(until),
      signingAlgorithm: ALGORITHM,
      publicKey: request.publicKey,
      signingKey: keys.privateKey,
      extensions: [
        new x509.SubjectAlternativeNameExtension(names.map((value) => ({ type: "dns" as const, value }))),
        await x509.AuthorityKeyIdentifierExtension.create(keys.publicKey),
      ],
    });
    signed = cert.toString("pem");
  }

  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    tls: pair,
    async fetch(request) {
      const { origin, pathname } = new URL(request.url);
      const at = (path: string) => `${origin}/${path}`;
      const path = pathname.slice(1);
      asked.push(path);
      const { payload = "" } = request.method === "POST" ? ((await request.json()) as { payload?: string }) : {};
      const given = payload === "" ? {} : JSON.parse(Buffer.from(payload, "base64url").toString());
      if (path === "order") orders.push(given.identifiers.map(({ value }: { value: string }) => value));
      if (path === "finalize") await sign(given.csr);
      const identifiers = (orders.at(-1) ?? []).map((value) => ({ type: "dns", value }));
      const order = { identifiers, finalize: at("finalize"), authorizations: [] };
      const answers: Record<string, object> = {
        dir: {
          newNonce: at("nonce"),
          newAccount: at("account"),
          newOrder: at("order"),
          renewalInfo: at("window"),
        },
        nonce: {},
        account: { status: "valid" },
        order: { ...order, status: "ready" },
        finalize: { ...order, status: "valid", certificate: at("certificate") },
      };
      const headers = { "replay-nonce": "abc", location: request.url };
      const other = does.answer?.(path, at);
      if (other instanceof Response) return other;
      if (path === "certificate" && !other) return new Response(does.chain?.(signed) ?? signed, { headers });
      const answer = other ?? answers[path];
      if (!answer) return Response.json({ detail: "no" }, { status: 404, headers });
      return Response.json(answer, { status: path === "order" ? 201 : 200, headers });
    },
  });
  running.add(server);
  return { directory: `https://localhost:${server.port}/dir`, authority: pair.cert, asked, orders, does };
}
