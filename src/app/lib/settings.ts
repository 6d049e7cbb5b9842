/** The sections of settings, who sees them, and how a page of them changes something. */
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
  /** Everybody has it; the others are for owners and admins, and of them some for the operator's alone. */
  for?: "everybody" | "operator";
}

/** A section: its route stands in router.tsx, below `adminSettings` unless it is for everybody. */
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

/** Whether to show what is for owners and admins; the server decides (routes/settings.ts). */
export const administers = ({ role }: Person): boolean => role !== "member";

/**
 * Does something, tells of it or of its failure, and has what `key` begins with asked anew. `atForm`: a form says the
 * failure (parts/form.tsx).
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
