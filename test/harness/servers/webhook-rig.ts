/** An appliance that delivers events to receivers on this host, with helpers for tests. */
import * as developers from "../../../src/admin/developers.ts";
import { type DnsClient, newId } from "../../../src/base/runtime.ts";
import { type EventData, makeSampleEventData } from "../../../src/events/catalogue.ts";
import { EVENT_NAMES, type EventName } from "../../../src/events/kinds.ts";
import { emitEvent } from "../../../src/events/outbox.ts";
import { letter, mailer } from "../mail/mail.ts";
import { type Receiver, startReceiver } from "../peers/receiver.ts";
import { type Booted, boot } from "./boot.ts";

/** These tests need no SMTP, whose listeners take time to start. */
const NO_SMTP = { MAILROOM_MX: "off", MAILROOM_SUBMISSION: "off", MAILROOM_SUBMISSIONS: "off" };
export const WITH_MX = { MAILROOM_MX: "127.0.0.1:0" };

export async function openRig(
  settings: Record<string, string> = {},
  env: Record<string, string> = {},
  dns?: DnsClient,
) {
  const booted: Booted = await boot({ ...NO_SMTP, ...env }, dns);
  const { opened, server, owner, runtime, mx } = booted;
  const { core } = opened;
  const { store, options } = core;
  store.transact((tx) => {
    const all = { "webhooks.allowNetworks": "127.0.0.0/8", ...settings };
    for (const [name, value] of Object.entries(all)) options.set(tx, name, value);
  });

  function add(url: string, events: readonly EventName[] = EVENT_NAMES, workspaceId = owner.workspaceId) {
    return store.transact((tx) => developers.addWebhook(core, tx, { workspaceId, url, events }));
  }

  return {
    ...booted,
    add,
    /** Starts a receiver, and adds an endpoint for it. */
    receive(events?: readonly EventName[]): Receiver & ReturnType<typeof add> {
      const receiver = startReceiver();
      return Object.assign(receiver, add(receiver.url, events));
    },
    /** Puts an event into the outbox as mail does. Returns its id. */
    happen<E extends EventName>(event: E, data?: Partial<EventData[E]>): string {
      const id = newId(runtime, "evt");
      const now = runtime.now();
      const whole = { ...makeSampleEventData(event, now), ...data } as EventData[E];
      store.transact((tx) => emitEvent(tx, { id, workspaceId: owner.workspaceId, event, data: whole, now }));
      return id;
    },
    /** Delivers mail from outside to alice@example.test. Needs WITH_MX. */
    async arrive(subject = "Hello"): Promise<void> {
      const sender = mailer(mx);
      await sender.send({ from: "carol@remote.example", to: "alice@example.test" }, letter({ subject }));
      sender.close();
    },
    /** Reads the log of an endpoint, oldest first. */
    log: (id: string) => developers.listDeliveries(core, id, { limit: 1_000 }).reverse(),
    settled: () => server.settled(),
  };
}
