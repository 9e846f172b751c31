import { readFileSync } from 'node:fs';

const folder = new URL('../fixtures/llm-streams/', import.meta.url);

export function recordedText(name: string): string {
  return readFileSync(new URL(name, folder), 'utf8');
}

/** A recorded stream as its server sent it. */
export function recordedStream(name: string): string {
  const text = recordedText(name);
  if (name.endsWith('.sse')) return text;
  const lines = text.split('\n').filter((line) => line !== '');
  return `${lines.map((line) => `data: ${line}\n\n`).join('')}data: [DONE]\n\n`;
}
