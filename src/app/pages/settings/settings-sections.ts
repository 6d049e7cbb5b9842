/** The sections of the settings, and which of them a person has. */
import { useQuery } from "@tanstack/react-query";
import {
  AtSign,
  Bell,
  Boxes,
  Building2,
  Funnel,
  Gauge,
  Globe,
  KeyRound,
  type LucideIcon,
  MonitorSmartphone,
  Send,
  ShieldCheck,
  Signature,
  Smartphone,
  Stethoscope,
  UserRound,
  Users,
  Webhook,
} from "lucide-react";
import { isOwnerOrAdmin, meQuery } from "../../lib/queries.ts";
import { workspaceQuery } from "./settings-workspace.ts";

interface Section {
  to: string;
  name: string;
  icon: LucideIcon;
  /** Audience; absent: owners and admins. `operator`: owners and admins of the first workspace. */
  for?: "everybody" | "operator";
}

/** Each section has a route in router.tsx, below `adminSettings` unless it is for everybody. */
const SECTIONS = [
  {
    title: "You",
    sections: [
      { to: "/settings/profile", name: "Profile", icon: UserRound, for: "everybody" },
      { to: "/settings/writing", name: "Signature and templates", icon: Signature, for: "everybody" },
      { to: "/settings/second-factor", name: "Two-step sign-in", icon: ShieldCheck, for: "everybody" },
      { to: "/settings/app-passwords", name: "Mail apps", icon: Smartphone, for: "everybody" },
      { to: "/settings/notifications", name: "Notifications", icon: Bell, for: "everybody" },
      { to: "/settings/sessions", name: "Sessions", icon: MonitorSmartphone, for: "everybody" },
      { to: "/settings/rules", name: "Rules and absence", icon: Funnel, for: "everybody" },
    ],
  },
  {
    title: "Workspace",
    sections: [
      { to: "/settings/workspace", name: "Workspace", icon: Building2 },
      { to: "/settings/people", name: "People", icon: Users },
      { to: "/settings/mailboxes", name: "Mailboxes", icon: AtSign },
      { to: "/settings/domains", name: "Domains", icon: Globe },
      { to: "/settings/outbound", name: "Outbound mail", icon: Send },
    ],
  },
  {
    title: "Developers",
    sections: [
      { to: "/settings/keys", name: "API keys", icon: KeyRound },
      { to: "/settings/webhooks", name: "Webhooks", icon: Webhook },
    ],
  },
  {
    title: "Server",
    sections: [
      { to: "/settings/server", name: "Limits and server", icon: Gauge, for: "operator" },
      { to: "/settings/doctor", name: "Doctor", icon: Stethoscope, for: "operator" },
      { to: "/settings/workspaces", name: "Workspaces", icon: Boxes, for: "operator" },
    ],
  },
] as const satisfies readonly { title: string; sections: readonly Section[] }[];

/** A hook: the sections that the person has, in groups. */
export function useSettingsSections() {
  const { data: me } = useQuery(meQuery);
  const isAdmin = me !== undefined && isOwnerOrAdmin(me);
  const { data: workspace } = useQuery({ ...workspaceQuery, enabled: isAdmin });
  return SECTIONS.map(({ title, sections }) => ({
    title,
    shown: sections.filter((section) => {
      if (!("for" in section)) return isAdmin;
      return section.for === "everybody" || (isAdmin && workspace?.operator === true);
    }),
  })).filter(({ shown }) => shown.length > 0);
}
