import { createHash } from 'node:crypto';

/** The SHA-256 of names. */
export function digestOfNames(names: readonly string[]): Buffer {
  return createHash('sha256').update(JSON.stringify(names)).digest();
}

/** The group of the contexts of an owner, which is known by these names: 22 characters, the same in every process. See `TaskQuery`. */
export function ownerGroup(...names: readonly string[]): string {
  return digestOfNames(names).toString('base64url').slice(0, 22);
}
