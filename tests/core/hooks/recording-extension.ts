import type { Extension } from 'millrace';

/** An extension that has every hook and changes nothing; each question to it is written down, with its iteration. */
export function recordingExtension(name = 'recorder'): Extension & { readonly asked: string[] } {
  const asked: string[] = [];
  const note = (hook: string, iteration: number, detail = '') => {
    asked.push(`${hook} ${iteration}${detail}`);
    return undefined;
  };
  return Object.defineProperty(
    {
      name,
      beforeMessage: ({ role }) => note('beforeMessage', 0, ` ${role}`),
      beforeTurn: ({ iteration }) => note('beforeTurn', iteration),
      shouldPause: ({ iteration }) => note('shouldPause', iteration),
      prepareIteration: (_, { iteration }) => note('prepareIteration', iteration),
      beforeLLMCall: (_, { iteration }) => note('beforeLLMCall', iteration),
      afterLLMCall: (_, { iteration }) => note('afterLLMCall', iteration),
      onLLMError: ({ error }, { iteration }) => note('onLLMError', iteration, ` ${error.code}`),
      beforeToolCall: ({ iteration, callId }) => note('beforeToolCall', iteration, ` ${callId}`),
      approveToolCall: ({ callId }) => note('approveToolCall', Number.parseInt(callId, 10), ` ${callId}`),
      afterToolCall: ({ iteration, callId }) => note('afterToolCall', iteration, ` ${callId}`),
      beforeFinish: ({ iteration }) => note('beforeFinish', iteration),
      afterIteration: ({ iteration, finished }) => note('afterIteration', iteration, finished ? ' finished' : ''),
      afterTurn: ({ iteration, outcome }) => note('afterTurn', iteration, ` ${outcome.state}`),
      afterEnd: ({ iteration, outcome }) => note('afterEnd', iteration, ` ${outcome.state}`),
    } satisfies Extension,
    'asked',
    { value: asked, enumerable: false },
  ) as Extension & { readonly asked: string[] };
}
