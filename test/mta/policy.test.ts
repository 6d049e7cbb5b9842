/** What becomes of mail from other servers by who sent it (contract: Arrival, Spam), from the socket to the API. */
import { describe, expect, test } from "bun:test";
import type { DnsResolver } from "../../src/runtime.ts";
import { events } from "../../src/store/schema.ts";
import { type Booted, boot } from "../harness/appliance.ts";
import { newSigner, signed } from "../harness/dkim-signer.ts";
import { type Records, type Zone, zone } from "../harness/dns-server.ts";
import { type Letter, letter } from "../harness/mail.ts";
import { connectSmtp } from "../harness/smtp-client.ts";
import { until } from "../harness/until.ts";

const dmarc = (policy: string): Records => ({ txt: [`v=DMARC1; ${policy}`] });
const signer = newSigner("strict.example");
const ZONE: Zone = {
  "_dmarc.strict.example": dmarc("p=reject"),
  "s._domainkey.strict.example": { txt: [signer.record] },
  "_dmarc.careful.example": dmarc("p=quarantine"),
  "_dmarc.lax.example": dmarc("p=none; sp=reject"),
  "_dmarc.never.example": dmarc("p=reject; pct=0"),
  "_dmarc.rarely.example": dmarc("p=quarantine; pct=0"),
  "good.example": { txt: ["v=spf1 ip4:127.0.0.1 -all"] },
  "_dmarc.good.example": dmarc("p=reject"),
  "_dmarc.example.test": dmarc("p=reject"),
};

interface Message {
  id: string;
  auth?: { spf: string; dkim: string; dmarc: string };
}

async function world(description: Zone = ZONE) {
  const app = await boot({ MAILROOM_HOSTNAME: "mx.example.test" }, zone(description));

  /** The reply to DATA, without its text. */
  async function deliver(
    given: Omit<Letter, "to"> & { to?: string | string[]; from: string; reversePath?: string },
    make: (message: string) => string = (message) => message,
  ): Promise<string> {
    const { reversePath = "list@unknown.example", to = "alice@example.test", ...fields } = given;
    const client = await connectSmtp(app.mx);
    await client.command("EHLO mail.unknown.example");
    const message = make(letter(fields).replaceAll("\n", "\r\n"));
    const { code, lines } = await client.deliver({ from: reversePath, to }, message.replace(/\r\n$/, ""));
    client.destroy();
    return `${code} ${lines[0]?.split(" ")[0]}`;
  }

  /** The newest message of a folder, as the API has it. */
  async function newest(folder: string): Promise<Message | undefined> {
    const { body } = await app.api.get<{ messages: { id: string }[] }>(
      `/messages${folder === "all" ? "" : `?folder=${folder}`}`,
    );
    const [first] = body.messages;
    return first && (await app.api.get<{ message: Message }>(`/messages/${first.id}`)).body.message;
  }

  const raw = async (folder: string): Promise<string> =>
    Buffer.from((await app.api.bytes(`/messages/${(await newest(folder))?.id}/raw`)).body).toString();

  return { ...app, deliver, newest, raw, isSpam: () => isSpamOf(app) };
}

/** Of every message.inbound so far. */
const isSpamOf = ({ appliance }: Booted): unknown[] =>
  appliance.store.db
    .select()
    .from(events)
    .all()
    .flatMap(({ event, data }) => (event === "message.inbound" ? [(data as { isSpam: boolean }).isSpam] : []));

describe("a message that fails", () => {
  test("p=reject is refused at DATA, and nothing is filed or announced", async () => {
    const { deliver, newest, isSpam } = await world();
    expect(await deliver({ from: "ceo@strict.example" })).toBe("550 5.7.1");
    expect(await deliver({ from: "ceo@sub.lax.example" })).toBe("550 5.7.1");
    expect([await newest("all"), await newest("spam"), isSpam()]).toEqual([undefined, undefined, []]);
  });

  test("p=reject is filed to spam where spam.rejectDmarc is false", async () => {
    const it = await world();
    it.appliance.store.transact((tx) => it.appliance.options.set(tx, "spam.rejectDmarc", "false"));
    expect(await it.deliver({ from: "ceo@strict.example" })).toBe("250 2.6.0");
    expect((await it.newest("spam"))?.auth).toEqual({ spf: "none", dkim: "none", dmarc: "fail" });
    expect(it.isSpam()).toEqual([true]);
  });

  test.each([
    ["p=quarantine", "a@careful.example", "spam", "fail"],
    ["p=none", "a@lax.example", "inbox", "fail"],
    ["p=reject, of none of them", "a@never.example", "spam", "fail"],
    ["p=quarantine, of none of them", "a@rarely.example", "inbox", "fail"],
    ["nothing that is published", "a@unknown.example", "inbox", "none"],
  ])("%s", async (_, from, folder, verdict) => {
    const { deliver, newest, isSpam } = await world();
    expect(await deliver({ from })).toBe("250 2.6.0");
    expect(await newest(folder)).toMatchObject({ auth: { dmarc: verdict } });
    expect(isSpam()).toEqual([folder === "spam"]);
  });

  test("p=quarantine joins no conversation that is not in spam", async () => {
    const { deliver, newest, isSpam } = await world();
    await deliver({ from: "a@lax.example", messageId: "<first@lax.example>" });
    await deliver({ from: "a@careful.example", headers: ["In-Reply-To: <first@lax.example>"], subject: "Re: Hello" });
    expect(isSpam()).toEqual([false, true]);
    expect((await newest("inbox"))?.id).not.toBe((await newest("spam"))?.id);
  });

  test("p=reject of our own domain, from outside", async () => {
    const { deliver } = await world();
    const from = "alice@example.test";
    expect(await deliver({ from, reversePath: from })).toBe("550 5.7.1");
  });

  test("p=reject is taken for postmaster and abuse, and then for all, into spam", async () => {
    const { deliver, newest, isSpam } = await world();
    for (const to of [
      "postmaster@example.test",
      "Abuse@example.test",
      ["alice@example.test", "postmaster@example.test"],
    ]) {
      expect(await deliver({ from: "ceo@strict.example", to })).toBe("250 2.6.0");
    }
    expect((await newest("spam"))?.auth?.dmarc).toBe("fail");
    expect(isSpam()).toEqual([true, true, true]);
  });
});

test("a message that passes goes to the inbox with its verdicts, which its topmost field explains", async () => {
  const { deliver, newest, raw } = await world();
  expect(await deliver({ from: "ceo@strict.example" }, (text) => signed(text, signer))).toBe("250 2.6.0");
  expect((await newest("inbox"))?.auth).toEqual({ spf: "none", dkim: "pass", dmarc: "pass" });
  expect(await raw("inbox")).toMatch(/^Authentication-Results: mx\.example\.test;.*dkim=pass.*dmarc=pass/s);
  expect(await deliver({ from: "a@good.example", reversePath: "a@good.example" })).toBe("250 2.6.0");
  expect((await newest("inbox"))?.auth).toEqual({ spf: "pass", dkim: "none", dmarc: "pass" });
});

test("forged results go, whosever name they bear", async () => {
  const { deliver, raw } = await world();
  await deliver({
    from: "a@careful.example",
    headers: [
      "Authentication-Results: mx.example.test; dmarc=pass header.from=careful.example",
      "AUTHENTICATION-RESULTS : MX.example.test;\n dkim=pass",
      "Authentication-Results: elsewhere.example; spf=pass",
      "X-Kept: yes",
    ],
  });
  const header = (await raw("spam")).split("\r\n\r\n")[0] ?? "";
  expect(header).toContain("X-Kept: yes");
  expect(header.match(/^authentication-results/gim)).toHaveLength(1);
  expect(header).not.toMatch(/pass|elsewhere/);
});

test("the same message with other verdicts is the same message", async () => {
  const description: Zone = { ...ZONE };
  const { deliver, advance, isSpam } = await world(description);
  const again = { from: "a@good.example", messageId: "<1@good.example>" };
  description["_dmarc.good.example"] = dmarc("p=none");
  expect(await deliver(again)).toBe("250 2.6.0");
  await advance(600_000);
  description["good.example"] = {};
  expect(await deliver({ ...again, reversePath: "a@good.example" })).toBe("250 2.6.0");
  expect(isSpam()).toEqual([false]);
});

test("a retry of what is filed is accepted, though by now it would be refused; another message is", async () => {
  const { deliver, isSpam } = await world();
  const first = { from: "a@good.example", messageId: "<1@good.example>" };
  expect(await deliver({ ...first, reversePath: "a@good.example" })).toBe("250 2.6.0");
  expect(await deliver(first)).toBe("250 2.6.0");
  expect(await deliver({ ...first, subject: "Another" })).toBe("550 5.7.1");
  expect(isSpam()).toEqual([false]);
});

test("what our own people send here is not authenticated", async () => {
  const { api, newest, advance } = await world();
  const sent = await api.post("/send", {
    from: "alice@example.test",
    to: ["alice@example.test"],
    subject: "Note",
    text: "To me",
  });
  expect(sent.status).toBe(202);
  await advance(1_000);
  const received = await newest("inbox");
  expect(received).toBeDefined();
  expect(received).not.toHaveProperty("auth");
});

describe("a resolver that is down", () => {
  const everyQuestion = (answer: (name: string) => Promise<never>): DnsResolver =>
    Object.fromEntries(Object.keys(zone({})).map((method) => [method, answer])) as never;

  test("holds a message up for ten seconds at most, and never makes it fail", async () => {
    const asked: string[] = [];
    const dns = everyQuestion((name) => {
      asked.push(name);
      return new Promise(() => {});
    });
    const app = await boot({}, dns);
    const untilAsked = (name: string) => until(() => asked.includes(name));
    const client = await connectSmtp(app.mx);
    await client.command("EHLO mail.strict.example");
    const message = signed(letter({ from: "ceo@strict.example" }), signer);
    const reply = client.deliver({ from: "ceo@strict.example", to: "alice@example.test" }, message);
    await untilAsked("strict.example");
    await untilAsked("s._domainkey.strict.example");
    await app.advance(5_000);
    await untilAsked("_dmarc.strict.example");
    await app.advance(5_000);
    expect((await reply).code).toBe(250);
    const { body } = await app.api.get<{ messages: { id: string }[] }>("/messages?folder=inbox");
    const { message: filed } = (await app.api.get<{ message: Message }>(`/messages/${body.messages[0]?.id}`)).body;
    expect(filed.auth).toEqual({ spf: "temperror", dkim: "temperror", dmarc: "temperror" });
    client.destroy();
  });

  test("that refuses at once changes nothing but the verdicts", async () => {
    const refused = () => Promise.reject(Object.assign(new Error("refused"), { code: "ECONNREFUSED" }));
    const app = await boot({}, everyQuestion(refused));
    const client = await connectSmtp(app.mx);
    await client.command("EHLO mail.strict.example");
    const { code } = await client.deliver(
      { from: "", to: "alice@example.test" },
      letter({ from: "ceo@strict.example" }),
    );
    expect(code).toBe(250);
    expect(isSpamOf(app)).toEqual([false]);
    client.destroy();
  });
});
