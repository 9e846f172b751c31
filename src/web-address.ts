/** Whether an address is of the web and encrypted, so that a model's vendor may fetch it. */
export function isWebAddress(url: string): boolean {
  return /^https:\/\//i.test(url);
}

/** Says to a client which address of a file is accepted. */
export const webAddressRule = 'The url of a file must begin with https://; or send its content.';
