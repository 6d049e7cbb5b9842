/** `mailroom setup` */

import { setUp } from "../admin/setup.ts";
import { type Runtime, randomToken } from "../base/runtime.ts";
import { command } from "./command.ts";
import { recordWithDns } from "./output.ts";

/** 119 random bits. */
const PASSWORD_LENGTH = 20;

export const randomPassword = (runtime: Pick<Runtime, "randomBytes">): string => randomToken(runtime, PASSWORD_LENGTH);

export const setup = command({
  name: "setup",
  summary: "Make the first workspace: domain, owner, mailbox, API key",
  options: {
    domain: { value: "DOMAIN", required: true, summary: "The domain that gets mail" },
    email: { value: "ADDRESS", required: true, summary: "Address of the owner, at that domain" },
    name: { value: "NAME", required: true, summary: "Name of the owner" },
    workspace: { value: "NAME", summary: "Name of the workspace; the domain if left out" },
    "password-stdin": { summary: "Read the owner's password from standard input; made up and printed if left out" },
  },
  text: recordWithDns,
  async run(session, { options }) {
    const given = options["password-stdin"] ? await session.readSecret() : undefined;
    const password = given ?? randomPassword(session.runtime);
    const { domain, email, name, workspace } = options;
    const made = await setUp(session.appliance, { domain, email, name, workspace, password });
    const { workspaceId, userId, mailboxId, address, apiKey, dns } = made;
    return { workspaceId, userId, mailboxId, address, apiKey, ...(given === undefined && { password }), dns };
  },
});
