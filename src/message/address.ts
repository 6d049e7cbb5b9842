/** An address with the display name it came with (spec: EmailAddress). */
export interface EmailAddress {
  email: string;
  name?: string;
}
