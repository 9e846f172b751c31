import { JsonCounter } from './core/contracts/index.ts';

/** Why JSON is refused: it has more bytes, levels or values than it may have, or it is not JSON. */
export type JsonFault = 'bytes' | 'depth' | 'values' | 'syntax';

/**
 * Reads a body as JSON. Reads no further, and parses nothing, once it exceeds `maxBytes` or a limit of `JsonCounter`; what the source sends after that is
 * its owner's. `declared`: its length as a header says it, with which a larger body is not read at all. Errors: those of the source. Keeps at most
 * `maxBytes`.
 */
export async function readJson(
  chunks: AsyncIterable<Uint8Array>,
  { maxBytes, declared }: { readonly maxBytes: number; readonly declared: string | null | undefined },
): Promise<{ readonly value: unknown } | { readonly fault: JsonFault }> {
  if (Number(declared ?? 0) > maxBytes) return { fault: 'bytes' };
  const counter = new JsonCounter();
  const decoder = new TextDecoder();
  let text = '';
  let size = 0;
  for await (const chunk of chunks) {
    size += chunk.byteLength;
    const fault = size > maxBytes ? 'bytes' : counter.add(chunk);
    if (fault) return { fault };
    text += decoder.decode(chunk, { stream: true });
  }
  try {
    return { value: JSON.parse(text + decoder.decode()) };
  } catch {
    return { fault: 'syntax' };
  }
}
