/** How many files the server may open: connections are files, and what it may have of them follows from the limit. */
import { shareDescriptors } from "../../base/descriptors.ts";
import type { Check } from "../check.ts";

export const checkOpenFiles: Check = async ({ config, system, serving }) => {
  const limit = serving ? await system.openFilesOfServer(config.data) : undefined;
  if (limit === undefined) return [];
  const { smtp, http, suffices } = shareDescriptors(limit);
  const connections = `${smtp.mx + smtp.submission + smtp.submissions} SMTP and ${http} HTTP connections`;
  return [
    {
      ...{ id: "open-files", name: "Open files", state: suffices ? "ok" : "warning" },
      detail: `the limit is ${limit}, for ${connections}${suffices ? "" : ", which it does not suffice for"}`,
      ...(!suffices && {
        todo: "Raise the limit of open files (LimitNOFILE= of the service, ulimit -n) to 65536, and start the server again.",
      }),
    },
  ];
};
