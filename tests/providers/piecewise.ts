import type { LLMChunk, LLMResponse } from 'millrace';
import { LiteLLMProvider, type LiteLLMProviderOptions } from 'millrace/litellm';
import { lastValueFrom, toArray } from 'rxjs';

/** A `fetch` whose answer is a body in just these pieces. */
export function fetchOf(pieces: readonly Uint8Array[], contentType: string): typeof globalThis.fetch {
  return async () => {
    const left = [...pieces];
    const body = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          const piece = left.shift();
          if (piece === undefined) controller.close();
          else controller.enqueue(piece);
        },
      },
      { highWaterMark: 0 },
    );
    return new Response(body, { headers: { 'content-type': contentType } });
  };
}

/** `bytes` cut at these places. */
export function cutAt(bytes: Uint8Array, places: readonly number[]): readonly Uint8Array[] {
  const bounds = [0, ...[...new Set(places)].sort((a, b) => a - b), bytes.length];
  return bounds.slice(1).map((end, index) => bytes.subarray(bounds[index], end));
}

export interface Replay {
  readonly chunks: readonly LLMChunk[];
  readonly response: LLMResponse;
}

/** What `stream` gives for a body in these pieces. */
export async function replay(
  pieces: readonly Uint8Array[],
  options: Partial<LiteLLMProviderOptions> = {},
): Promise<Replay> {
  const provider = new LiteLLMProvider({
    baseUrl: 'http://model.test/v1',
    model: 'm',
    fetch: fetchOf(pieces, 'text/event-stream'),
    ...options,
  });
  const all = await lastValueFrom(provider.stream({ messages: [] }).pipe(toArray()));
  const last = all.at(-1);
  if (last?.type !== 'done') throw new Error('The stream did not end with done.');
  return { chunks: all.slice(0, -1), response: last.response };
}

/** What `stream` gives for a body in one piece. */
export function replayText(stream: string): Promise<Replay> {
  return replay([new TextEncoder().encode(stream)]);
}

/** What `call` gives for a body of JSON. */
export function replayCall(body: unknown): Promise<LLMResponse> {
  const bytes = new TextEncoder().encode(typeof body === 'string' ? body : JSON.stringify(body));
  const provider = new LiteLLMProvider({
    baseUrl: 'http://model.test/v1',
    model: 'm',
    fetch: fetchOf([bytes], 'application/json'),
  });
  return provider.call({ messages: [] });
}

/** The text, the reasoning and the calls that the fragments amount to. */
export function foldChunks(chunks: readonly LLMChunk[]) {
  const calls: { id: string; name: string; arguments: string }[] = [];
  let text = '';
  let reasoning = '';
  for (const chunk of chunks) {
    if (chunk.type === 'text') text += chunk.text;
    if (chunk.type === 'reasoning') reasoning += chunk.text;
    if (chunk.type !== 'tool-call') continue;
    calls[chunk.index] ??= { id: '', name: '', arguments: '' };
    const call = calls[chunk.index];
    if (call === undefined) continue;
    call.id += chunk.id ?? '';
    call.name += chunk.name ?? '';
    call.arguments += chunk.arguments ?? '';
  }
  return { text, reasoning, calls };
}
