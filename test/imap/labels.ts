/** People who want their labels as mailboxes, for tests of these. */
import { expect } from "bun:test";
import * as people from "../../src/admin/people.ts";
import type { ImapAccount, Reply } from "../harness/clients/imap-client.ts";
import { type ImapWorld, sharedImapWorld } from "../harness/servers/imap-world.ts";

interface Labels extends ImapWorld {
  /** An app of Alice's, who wants labels as mailboxes. */
  own: ImapAccount;
}

/** Turns labels as mailboxes on, or off. */
export function want({ app }: ImapWorld, wanted = true, userId = app.owner.userId): void {
  app.write((tx) => people.setLabelFolders(tx, userId, wanted));
}

/** Makes a world with labels as mailboxes, by default on the server that the worlds of a file share. */
export async function labelled(made: ImapWorld | Promise<ImapWorld> = sharedImapWorld()): Promise<Labels> {
  const world = await made;
  want(world);
  return { ...world, own: await world.client() };
}

export const patch = async ({ app }: ImapWorld, threadId: string, change: object): Promise<void> => {
  expect((await app.api.patch(`/threads/${threadId}`, change)).status).toBe(200);
};

/** A conversation of its own. */
export async function arrive(world: ImapWorld, subject: string, ...labels: string[]): Promise<string> {
  const { threadId } = await world.arrive({ subject });
  if (labels.length > 0) await patch(world, threadId, { labels });
  return threadId;
}

export const validityOf = ({ untagged }: Pick<Reply, "untagged">): number =>
  Number(/UIDVALIDITY (\d+)/.exec(untagged.join("\n"))?.[1]);
