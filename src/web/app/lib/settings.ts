/** The sections of settings, who sees them, and how a page of them changes something. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import {
  AtSign,
  Gauge,
  Globe,
  KeyRound,
  type LucideIcon,
  MonitorSmartphone,
  Send,
  ShieldCheck,
  Smartphone,
  UserRound,
  Users,
  Webhook,
} from "lucide-react";
import type { Person } from "./api.ts";
import { toast } from "./toast.ts";

/** A section: its route stands in router.tsx, below `adminSettings` unless it is for everybody. */
export const SECTIONS = [
  { to: "/settings/profile", name: "Profile", icon: UserRound, everybody: true },
  { to: "/settings/second-factor", name: "Two-step sign-in", icon: ShieldCheck, everybody: true },
  { to: "/settings/app-passwords", name: "Mail apps", icon: Smartphone, everybody: true },
  { to: "/settings/sessions", name: "Sessions", icon: MonitorSmartphone, everybody: true },
  { to: "/settings/people", name: "People", icon: Users, everybody: false },
  { to: "/settings/mailboxes", name: "Mailboxes", icon: AtSign, everybody: false },
  { to: "/settings/domains", name: "Domains", icon: Globe, everybody: false },
  { to: "/settings/outbound", name: "Outbound mail", icon: Send, everybody: false },
  { to: "/settings/server", name: "Limits and server", icon: Gauge, everybody: false },
  { to: "/settings/keys", name: "API keys", icon: KeyRound, everybody: false },
  { to: "/settings/webhooks", name: "Webhooks", icon: Webhook, everybody: false },
] as const satisfies readonly { to: string; name: string; icon: LucideIcon; everybody: boolean }[];

/** Whether to show what is for owners and admins; the server decides (routes/settings.ts). */
export const administers = ({ role }: Person): boolean => role !== "member";

/** Does something, tells of it or of its failure, and has what `key` begins with asked anew. */
export function useChange<Given, Answer>(
  change: (given: Given) => Promise<Answer>,
  { key, told }: { key: readonly string[]; told?: string },
) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: () => {
      if (told !== undefined) toast({ text: told });
    },
    onError: (error: Error) => toast({ text: error.message, tone: "danger" }),
    onSettled: () => client.invalidateQueries({ queryKey: key }),
  });
}
