/** A server that receives HTML made to keep it busy, shows it to agents and people, and delays no other request. */
import { expect, test } from "bun:test";
import { connectMcp } from "../harness/clients/mcp-client.ts";
import { CLASSES_BY_RULES } from "../harness/mail/hostile-html.ts";
import { boot } from "../harness/servers/boot.ts";
import { htmlMail, receive } from "./received-html.ts";

/** Measures the longest time, in ms, for which this thread ran nothing else during `run`. */
async function longestStall<T>(run: () => Promise<T>): Promise<{ result: T; stalled: number }> {
  let stalled = 0;
  let last = performance.now();
  const look = () => {
    stalled = Math.max(stalled, performance.now() - last);
    last = performance.now();
  };
  const timer = setInterval(look, 1);
  const result = await run();
  look();
  clearInterval(timer);
  return { result, stalled };
}

test("receiving and reading a mail of 313 kB that once took 36 s delays nothing else", async () => {
  const booted = await boot();
  const mcp = await connectMcp(booted.http, booted.owner.apiKey);
  const { result, stalled } = await longestStall(async () => {
    const id = await receive(booted, htmlMail(CLASSES_BY_RULES));
    const { body } = await booted.api.get<{ message: { threadId: string } }>(`/messages/${id}`);
    return [
      await mcp.call("get_message", { id }),
      await mcp.call("get_message", { id, html: true }),
      await mcp.call("get_thread", { id: body.message.threadId }),
    ];
  });
  // Nothing of the text is hidden, and finding that out costs less than the budget.
  for (const { text, isError } of result) {
    expect(isError).toBe(false);
    expect(text).toContain("secret");
  }
  expect(stalled).toBeLessThan(2_000);
  await mcp.close();
});

test("six such mails do not delay sending", async () => {
  const booted = await boot();
  const ids = Promise.all(
    Array.from({ length: 6 }, (_, index) => receive(booted, htmlMail(CLASSES_BY_RULES, `Offer ${index}`))),
  );
  const { stalled } = await longestStall(async () => {
    const { status } = await booted.api.post("/send", {
      from: "alice@example.test",
      to: "alice@example.test",
      subject: "Mine",
      html: "<p>x</p>",
    });
    expect(status).toBe(202);
  });
  expect(stalled).toBeLessThan(2_000);
  expect(new Set(await ids).size).toBe(6);
});
