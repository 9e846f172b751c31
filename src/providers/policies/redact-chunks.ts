import { AgentLoopError, type LLMChunk, type LLMResponse } from '../../core/contracts/index.ts';
import { redactMembers } from '../../redaction/redact-members.ts';
import { withoutSecrets } from '../../redaction/redact-secrets.ts';
import { isResponse } from './is-response.ts';

type Redact = (text: string) => string;

/**
 * The chunks of one answer without secrets. A secret in pieces is found too: if the text of an attempt has one, the whole of
 * it stands in its first piece and the others are empty; texts without one keep their pieces.
 */
export function redactChunks(chunks: readonly LLMChunk[], redact: Redact): readonly LLMChunk[] {
  const texts = joinedTexts(chunks);
  const clean = new Map([...texts].map(([channel, text]) => [channel, cleanText(text, redact)]));
  const given = new Set<string>();
  return channelsOf(chunks).map(({ chunk, channel }) => {
    if (chunk.type === 'attempt') return chunk;
    if (chunk.type === 'done') return { type: 'done', response: redactResponse(chunk.response, redact) };
    const whole = clean.get(channel) ?? '';
    if (whole === texts.get(channel)) return chunk;
    const text = given.has(channel) ? '' : whole;
    given.add(channel);
    return chunk.type === 'tool-call' ? { ...chunk, arguments: text } : { ...chunk, text };
  });
}

interface Channeled {
  readonly chunk: LLMChunk;
  /** What texts grow together: of an attempt, its text, its reasoning, the arguments of each of its calls. */
  readonly channel: string;
}

function channelsOf(chunks: readonly LLMChunk[]): readonly Channeled[] {
  let attempt = 0;
  return chunks.map((chunk) => {
    if (chunk.type === 'attempt') attempt += 1;
    const index = chunk.type === 'tool-call' ? chunk.index : 0;
    return { chunk, channel: `${attempt} ${chunk.type} ${index}` };
  });
}

function joinedTexts(chunks: readonly LLMChunk[]): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  for (const { chunk, channel } of channelsOf(chunks)) {
    const piece = chunk.type === 'tool-call' ? chunk.arguments : 'text' in chunk ? chunk.text : undefined;
    if (piece !== undefined) texts.set(channel, (texts.get(channel) ?? '') + piece);
  }
  return texts;
}

function cleanText(text: string, redact: Redact): string {
  return String(withoutSecrets(text, redact));
}

function redactResponse(response: LLMResponse, redact: Redact): LLMResponse {
  const clean = redactMembers(response, redact);
  if (isResponse(clean)) return clean;
  throw new AgentLoopError('INVALID_INPUT', 'redact must return a string for each string.');
}
