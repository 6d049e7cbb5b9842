/** The page of one entry of a list, with a link to the list above it. */
import { Link } from "@tanstack/react-router";
import { ArrowLeft } from "lucide-react";
import type { ComponentProps } from "react";
import { SettingsPage } from "./settings-blocks.tsx";

export function ItemPage({
  list,
  all,
  ...page
}: ComponentProps<typeof SettingsPage> & {
  list: "/settings/keys" | "/settings/mailboxes" | "/settings/webhooks";
  /** Text of the link, such as "All mailboxes". */
  all: string;
}) {
  return (
    <>
      <Link to={list} className="mb-3 inline-flex items-center gap-1.5 text-sm text-soft hover:text-ink">
        <ArrowLeft size={15} aria-hidden /> {all}
      </Link>
      <SettingsPage {...page} />
    </>
  );
}
