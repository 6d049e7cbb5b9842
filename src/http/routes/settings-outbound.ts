/** Administration of outbound mail: whom the workspace may not write to, and who still waits for its mail. */

import type { Outbound, UnsettledView } from "../../admin/outbound.ts";
import { t } from "../../operations/json-schema.ts";
import type { Store } from "../../store/store.ts";
import type { QueueEntryView, QueueView, SuppressionView } from "../admin-views.ts";
import type { Route } from "../route.ts";
import { bodyOf, done, isoOf, workspaceOf } from "./asked.ts";

export interface OutboundParts {
  store: Pick<Store, "transact">;
  outbound: Outbound;
}

/** A queue may hold millions; who acts on single entries looks at the first. */
const MOST_ENTRIES = 200;

const readSuppression = bodyOf(t.Object({ address: t.String(), reason: t.String() }));

const viewOf = (entry: UnsettledView): QueueEntryView => {
  const { id, recipient, field, state, attempts, attempting, nextAttemptAt, reply, mailbox, acceptedAt } = entry;
  return {
    ...{ id, recipient, field, state, attempts, attempting, reply, mailbox },
    nextAttemptAt: nextAttemptAt === null ? null : isoOf(nextAttemptAt),
    acceptedAt: isoOf(acceptedAt),
  };
};

export function outboundRoutes({ store, outbound }: OutboundParts): Route[] {
  return [
    {
      method: "GET",
      path: "/suppressions",
      run: (asked): { suppressions: SuppressionView[] } => ({
        suppressions: outbound
          .listSuppressions(workspaceOf(asked))
          .map(({ address, reason, createdAt }) => ({ address, reason, createdAt: isoOf(createdAt) })),
      }),
    },
    {
      method: "POST",
      path: "/suppressions",
      async run(asked) {
        const given = await readSuppression(asked);
        store.transact((tx) => outbound.suppress(tx, { ...given, workspaceId: workspaceOf(asked) }));
        return done();
      },
    },
    {
      method: "DELETE",
      path: "/suppressions/:address",
      run(asked) {
        store.transact((tx) => outbound.unsuppress(tx, workspaceOf(asked), asked.params.address ?? ""));
        return done();
      },
    },
    {
      method: "GET",
      path: "/queue",
      run(asked): QueueView {
        const entries: QueueEntryView[] = [];
        for (const entry of outbound.listQueueFor(asked.session.caller)) {
          if (entries.length === MOST_ENTRIES) return { entries, more: true };
          entries.push(viewOf(entry));
        }
        return { entries, more: false };
      },
    },
    ...(["retry", "cancel"] as const).map(
      (deed): Route => ({
        method: "POST",
        path: `/queue/:id/${deed}`,
        run(asked) {
          store.transact((tx) => outbound[deed](tx, asked.params.id ?? "", workspaceOf(asked)));
          return done();
        },
      }),
    ),
  ];
}
