import { createHash } from 'node:crypto';
import type { AssistantMessage } from '../core/contracts/index.ts';

/** A short digest of a string, for comparison only. */
export function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 16);
}

/**
 * Names the server and the family of models that gave an answer, without showing the address. What a server wants back to the letter, and
 * the ids of its calls, go to the same origin only.
 */
export function originOf(address: string, model: string): string {
  return digestOf(`${address} ${familyOf(model)}`);
}

/**
 * The family of a model: its maker's name and its generation, which share signatures of reasoning. Without the way to the model
 * (`openrouter/anthropic/`), the size and the version: `gpt-5` of `gpt-5.6-sol`, `claude` of `us.anthropic.claude-opus-4-8`.
 */
export function familyOf(model: string): string {
  const name =
    model
      .toLowerCase()
      .split(/[/:]/)
      .findLast((part) => /[a-z]/.test(part) && !/^(?:free|latest|beta|nitro|thinking|v\d.*)$/.test(part)) ??
    model.toLowerCase();
  const plain = name.replace(/^(?:[a-z]+\.)+(?=[a-z])/, '');
  return /^(?:o\d|[a-z]+(?:-?\d+)?)/.exec(plain)?.[0] ?? plain;
}

/** The members of a message's metadata that only the server that gave the message can read, and the one that names it. */
const originName = 'origin';
const ownNames: ReadonlySet<string> = new Set([originName, 'wire', 'aiSdk']);
/** Version 0.1 noted no origin beside its own state, which names the package that can read it. */
const unnamed: ReadonlySet<string> = new Set(['wire']);

/** Which origin gave a message; `undefined` where nobody noted it. */
export function originIn({ metadata }: AssistantMessage): string | undefined {
  const origin = metadata?.[originName];
  return typeof origin === 'string' ? origin : undefined;
}

/** The metadata of an answer whose server wants something of it back: ids of calls, or what it gave for itself. */
export function originMetadata(origin: string): Readonly<Record<string, unknown>> {
  return { [originName]: origin };
}

/** The message as any other server may see it. The same object where nothing is left out. */
export function withoutOrigin(message: AssistantMessage): AssistantMessage {
  const { metadata } = message;
  const names = originIn(message) === undefined ? unnamed : ownNames;
  if (metadata === undefined || !Object.keys(metadata).some((name) => names.has(name))) return message;
  const others = Object.entries(metadata).filter(([name]) => !names.has(name));
  const { metadata: _, ...rest } = message;
  return others.length === 0 ? rest : { ...rest, metadata: Object.fromEntries(others) };
}
