import type { Message } from 'millrace';

export const messagesPerTurn = 40;

/** A turn of many messages, half a megabyte together, that each say which turn they belong to. */
export function largeTurn(turn: number): readonly Message[] {
  return Array.from({ length: messagesPerTurn }, (_, index) => ({
    role: 'user',
    id: `${turn}:${index}`,
    content: `${turn} `.repeat(4_000),
  }));
}
