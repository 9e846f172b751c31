import { type ArgumentCheck, type Content, type ToolProvider, textOf } from '../../core/contracts/index.ts';
import { engineDefinition } from '../../tools/engine-tools.ts';

export const readToolOutputName = 'read_tool_output';

/** Characters of a page. */
const pageLength = { default: 4_000, most: 16_000 };

/** A part of an output that was shortened. */
export interface OutputPart {
  readonly id: string;
  /** Where it begins. Characters, from 0. */
  readonly offset: number;
  readonly length: number;
}

/** A page of an output, and where the next one begins. Parts other than text come with the first page. */
export function pageOf(content: Content, { offset, length }: Omit<OutputPart, 'id'>): Content {
  const text = textOf(content);
  const page = text.slice(offset, offset + length);
  const end = Math.min(offset, text.length) + page.length;
  const rest = end < text.length ? `; continue with offset ${end}` : '';
  const noted = `[characters ${end - page.length} to ${end} of ${text.length}${rest}]\n${page}`;
  if (typeof content === 'string' || offset > 0) return noted;
  const attachments = content.filter(({ type }) => type !== 'text');
  return attachments.length === 0 ? noted : [{ type: 'text', text: noted }, ...attachments];
}

/** Reads arguments of the tool. Words for the model where they are wrong. */
export function outputPart(value: unknown): OutputPart | string {
  if (typeof value !== 'object' || value === null || !('id' in value) || typeof value.id !== 'string') {
    return 'id must be the text that stands in the note of the shortened output';
  }
  const offset = 'offset' in value ? value.offset : 0;
  const length = 'length' in value ? value.length : pageLength.default;
  if (!isCount(offset, 0)) return 'offset must be a whole number from 0';
  if (!isCount(length, 1)) return `length must be a whole number from 1 to ${pageLength.most}`;
  return { id: value.id, offset, length: Math.min(length, pageLength.most) };
}

function isCount(value: unknown, least: number): value is number {
  return Number.isSafeInteger(value) && Number(value) >= least;
}

function checkArguments(value: unknown): ArgumentCheck {
  const part = outputPart(value);
  return typeof part === 'string' ? { ok: false, message: part } : { ok: true, value: part };
}

const definition = engineDefinition({
  type: 'function',
  hidden: true,
  readOnly: true,
  idempotent: true,
  checkArguments,
  function: {
    name: readToolOutputName,
    description:
      'Reads a tool output again that was shortened in this conversation, by the id that stands in its note. Long outputs come in pages.',
    parameters: {
      type: 'object',
      properties: {
        id: { type: 'string', description: 'The id in the note of the shortened output.' },
        offset: { type: 'integer', minimum: 0, description: 'The character to begin with. Default 0.' },
        length: {
          type: 'integer',
          minimum: 1,
          maximum: pageLength.most,
          description: `How many characters at most. Default ${pageLength.default}.`,
        },
      },
      required: ['id'],
      additionalProperties: false,
    },
  },
});

/** Offers the tool; its extension gives the answers, as it knows the history. */
export const toolOutputReader: ToolProvider = {
  name: 'toolOutputCache',
  getTools: () => [definition],
  executeTool: () => Promise.reject(new Error(`${readToolOutputName} is answered by the extension toolOutputCache`)),
};
