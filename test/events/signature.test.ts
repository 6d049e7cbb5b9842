/**
 * Receivers verify deliveries: with the `stripe` package, whose scheme this is, and with `standardwebhooks`; by their own
 * clock, and while a secret is being rotated (rules: Webhook signature).
 */
import { expect, setSystemTime, test } from "bun:test";
import { createHmac } from "node:crypto";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import * as developers from "../../src/admin/developers.ts";
import type { Hook } from "../harness/peers/receiver.ts";
import { START } from "../harness/runtime.ts";
import { openRig } from "../harness/servers/webhook-rig.ts";

const { webhooks: stripe } = new Stripe("sk_test_none");
/** rules: Webhook signature. */
const TOLERANCE_SECONDS = 300;

const header = ({ headers }: Hook, name: string): string => headers.get(name) ?? "";

/** Verifies with `constructEvent`, which is asynchronous outside Node.js. `receivedAt`: epoch ms. */
async function verifiedByStripe(hook: Hook, secret: string, receivedAt: number): Promise<object> {
  const signature = header(hook, "x-service-signature");
  return stripe.constructEventAsync(hook.body, signature, secret, TOLERANCE_SECONDS, undefined, receivedAt);
}

/** Verifies by the receiver's clock, `at` (epoch ms). */
function verifiedByStandard(hook: Hook, secret: string, at: number): unknown {
  setSystemTime(new Date(at));
  try {
    return new Webhook(secret).verify(hook.body, Object.fromEntries(hook.headers));
  } finally {
    setSystemTime();
  }
}

/** A delivery of an event with every kind of character, and the secret it was signed with. */
async function deliver() {
  const rig = await openRig();
  const receiver = rig.receive();
  rig.happen("message.outbound", { subject: 'Grüße 你好 \u2028 "quoted" \\ </script>' });
  await rig.settled();
  const [hook] = receiver.hooks;
  if (!hook) throw new Error("nothing was delivered");
  return { ...rig, receiver, hook, secret: receiver.secret };
}

test("the secret is whsec_ and base64 of 32 bytes", async () => {
  const { secret } = await deliver();
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
});

test("the stripe package accepts the signature, and rejects another body, another secret and an old timestamp", async () => {
  const { hook, secret } = await deliver();
  const event = JSON.parse(hook.body);
  expect(await verifiedByStripe(hook, secret, START)).toEqual(event);
  await expect(
    verifiedByStripe({ ...hook, body: hook.body.replace("Grüße", "Gruesse") }, secret, START),
  ).rejects.toThrow();
  await expect(verifiedByStripe(hook, `${secret}x`, START)).rejects.toThrow();
  await expect(verifiedByStripe(hook, secret, START + 301_000)).rejects.toThrow(/tolerance/i);
});

test("the standardwebhooks package accepts the signature, and rejects another body, another secret and an old timestamp", async () => {
  const { hook, secret } = await deliver();
  const event = JSON.parse(hook.body);
  expect(verifiedByStandard(hook, secret, START)).toEqual(event);
  expect(() => verifiedByStandard({ ...hook, body: `${hook.body} ` }, secret, START)).toThrow();
  expect(() => verifiedByStandard(hook, `whsec_${"A".repeat(43)}=`, START)).toThrow();
  expect(() => verifiedByStandard(hook, secret, START + 301_000)).toThrow(/old/i);
});

test("v1 is the lower-case hex HMAC-SHA256 of `<t>.<raw body>`, keyed with the whole secret", async () => {
  const { hook, secret } = await deliver();
  const t = header(hook, "x-service-timestamp");
  const v1 = createHmac("sha256", secret).update(`${t}.${hook.body}`).digest("hex");
  expect(header(hook, "x-service-signature")).toBe(`t=${t},v1=${v1}`);
});

test("while the secret is rotated, v1 is by the old one and webhook-signature by both, until the overlap ends", async () => {
  const { receiver, secret: old, opened, happen, settled, advance, runtime } = await deliver();
  const { core } = opened;
  const { store } = core;
  const { secret } = store.transact((tx) => developers.rotateWebhookSecret(core, tx, receiver.id, 24));
  expect(secret).not.toBe(old);
  const next = async (): Promise<Hook> => {
    happen("message.outbound");
    await settled();
    return receiver.hooks.at(-1) as Hook;
  };

  await advance(24 * 3_600_000 - 1_000);
  const during = await next();
  expect(header(during, "x-service-signature").match(/v1=/g)).toHaveLength(1);
  expect(await verifiedByStripe(during, old, runtime.now())).toBeObject();
  await expect(verifiedByStripe(during, secret, runtime.now())).rejects.toThrow();
  expect(header(during, "webhook-signature").split(" ")).toHaveLength(2);
  for (const one of [old, secret]) expect(verifiedByStandard(during, one, runtime.now())).toBeObject();

  await advance(1_000);
  const after = await next();
  expect(await verifiedByStripe(after, secret, runtime.now())).toBeObject();
  await expect(verifiedByStripe(after, old, runtime.now())).rejects.toThrow();
  expect(header(after, "webhook-signature").split(" ")).toHaveLength(1);
  expect(verifiedByStandard(after, secret, runtime.now())).toBeObject();
  expect(() => verifiedByStandard(after, old, runtime.now())).toThrow();
});

test("a second rotation is refused during an overlap, unless it ends the old secret at once", async () => {
  const { receiver, opened, happen, settled, runtime } = await deliver();
  const { core } = opened;
  const { store } = core;
  const rotate = (hours: number) =>
    store.transact((tx) => developers.rotateWebhookSecret(core, tx, receiver.id, hours)).secret;
  const second = rotate(1);
  expect(() => rotate(1)).toThrow("is being rotated until 2026-01-05T10:00:00.000Z");
  const third = rotate(0);
  happen("message.outbound");
  await settled();
  const hook = receiver.hooks.at(-1) as Hook;
  expect(await verifiedByStripe(hook, third, runtime.now())).toBeObject();
  await expect(verifiedByStripe(hook, second, runtime.now())).rejects.toThrow();
  for (const hours of [-1, Number.NaN, 721]) expect(() => rotate(hours)).toThrow("0 to 720 hours");
});
