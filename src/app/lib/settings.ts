/** The sections of settings with their audience, and the hook with which their pages make changes. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import {
  AtSign,
  Boxes,
  Building2,
  Gauge,
  Globe,
  KeyRound,
  type LucideIcon,
  MonitorSmartphone,
  Send,
  ShieldCheck,
  Smartphone,
  Stethoscope,
  UserRound,
  Users,
  Webhook,
} from "lucide-react";
import type { Person } from "./api.ts";
import { toast } from "./toast.ts";

interface Section {
  to: string;
  name: string;
  icon: LucideIcon;
  /** Audience; absent: owners and admins. `operator`: owners and admins of the first workspace. */
  for?: "everybody" | "operator";
}

/** Each section has a route in router.tsx, below `adminSettings` unless it is for everybody. */
export const SECTIONS = [
  {
    title: "You",
    sections: [
      { to: "/settings/profile", name: "Profile", icon: UserRound, for: "everybody" },
      { to: "/settings/second-factor", name: "Two-step sign-in", icon: ShieldCheck, for: "everybody" },
      { to: "/settings/app-passwords", name: "Mail apps", icon: Smartphone, for: "everybody" },
      { to: "/settings/sessions", name: "Sessions", icon: MonitorSmartphone, for: "everybody" },
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

/** True: show the pages for owners and admins. The server enforces it (http/routes/settings.ts). */
export const administers = ({ role }: Person): boolean => role !== "member";

/**
 * Makes a change, tells of success or failure, and reloads the queries whose key begins with `key`. `atForm`: the form shows
 * the failure (parts/form.tsx).
 */
export function useChange<Given, Answer>(
  change: (given: Given) => Promise<Answer>,
  { key, told, atForm = false }: { key: readonly string[]; told?: string; atForm?: boolean },
) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: () => {
      if (told !== undefined) toast({ text: told });
    },
    onError: (error: Error) => {
      if (!atForm) toast({ text: error.message, tone: "danger" });
    },
    onSettled: () => client.invalidateQueries({ queryKey: key }),
  });
}
