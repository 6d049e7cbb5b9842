/** The page that a link to choose a password leads to, for browsers in which nobody needs to be signed in. */
import { createConcurrencyLimits } from "../../access/slowdown.ts";
import * as people from "../../admin/people.ts";
import { hashNewPassword } from "../../admin/people.ts";
import { AppError } from "../../base/errors.ts";
import { t } from "../../base/json-schema.ts";
import { defineAppOperation, type VisitorContext } from "../operation.ts";

const LARGEST_BODY = 16_384;
const token = t.String({ maxLength: 200 });
/** Guesses of one source at once, and waiting. */
const guesses = createConcurrencyLimits({ atOnce: 1, mostWaiting: 20 });

/**
 * Finds whom a link is for. A wrong one is slowed like a failed sign-in.
 * @throws AppError forbidden for a link that does not work, whatever the reason; rate_limited
 */
async function requireLink({ core, identity, source }: VisitorContext, token: string) {
  try {
    return people.getPasswordLinkUser(core, core.db, token);
  } catch (error) {
    if (error instanceof AppError) await guesses.within(source, () => identity.slowdown.failed(source));
    throw error;
  }
}

/** Tells whom a link is for, and leaves it as it is. `isReset`: they have a password already. */
export const checkPasswordLink = defineAppOperation({
  name: "checkPasswordLink",
  audience: "visitor",
  method: "POST",
  path: "/password-link/token",
  body: t.Object({ token }),
  largestBody: LARGEST_BODY,
  async run(context, { body }) {
    const { name, email, canSignIn: isReset } = await requireLink(context, body.token);
    return { name, email, isReset };
  },
});

/** Sets the password of the person for whom a link is, and uses the link up; they sign in with it next. */
export const choosePassword = defineAppOperation({
  name: "choosePassword",
  audience: "visitor",
  method: "POST",
  path: "/password-link",
  body: t.Object({ token, password: t.String() }),
  largestBody: LARGEST_BODY,
  async run(context, { body: { token, password } }) {
    const { core, source } = context;
    // Before the hash, so that strangers cannot have passwords hashed.
    const { id: userId } = await requireLink(context, token);
    const passwordHash = await hashNewPassword(password);
    core.store.transact((tx) => people.choosePassword(core, tx, token, passwordHash));
    core.log.info("a password was chosen with a link", { source, userId });
  },
});
