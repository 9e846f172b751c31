/** A conversation of this browser. */
export interface ListedChat {
  readonly id: string;
  readonly title: string;
  /** When something was last said. Milliseconds. */
  readonly at: number;
}

/** How many are listed; the oldest are dropped. */
const most = 200;
const longestTitle = 60;

/** The list with a chat in front: a new one, titled by its first message, or a known one, which keeps its title. */
export function withChat(list: readonly ListedChat[], { id, text, at }: { id: string; text: string; at: number }) {
  const title = list.find((chat) => chat.id === id)?.title ?? titleOf(text);
  return [{ id, title, at }, ...list.filter((chat) => chat.id !== id)].slice(0, most);
}

export function titleOf(text: string): string {
  const line = text.trim().split('\n', 1)[0] ?? '';
  const characters = Array.from(line);
  return characters.length > longestTitle
    ? `${characters
        .slice(0, longestTitle - 1)
        .join('')
        .trimEnd()}…`
    : line;
}

/** What a storage holds, which anybody at this origin may have written. */
export function parsedList(text: string | null): readonly ListedChat[] {
  try {
    const value: unknown = JSON.parse(text ?? '[]');
    return Array.isArray(value) ? value.filter(isListed).slice(0, most) : [];
  } catch {
    return [];
  }
}

function isListed(value: unknown): value is ListedChat {
  const { id, title, at } = Object(value);
  return typeof id === 'string' && id !== '' && typeof title === 'string' && typeof at === 'number';
}

/** Pages over http have no `randomUUID`. */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
