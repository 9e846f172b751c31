/** What the one tool of the bench takes. */
export interface EchoArguments {
  readonly text: string;
  readonly times: number;
}

export const echoParameters = {
  type: 'object',
  properties: { text: { type: 'string' }, times: { type: 'integer', minimum: 1 } },
  required: ['text', 'times'],
  additionalProperties: false,
} as const;

/** How often the tool ran. */
export const ran = { times: 0 };

/** Asynchronous, as most tools are. */
export async function echo({ text, times }: EchoArguments): Promise<string> {
  ran.times++;
  return text.repeat(times);
}
