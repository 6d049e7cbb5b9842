import { ANY_TLS, type Protection } from "../../src/outbound/protection.ts";

/** Domains that ask for nothing. */
export const UNPROTECTED: Protection = { of: async () => async () => ANY_TLS, close() {} };
