import type { LLMCapabilities } from '../../core/contracts/index.ts';

/** How the model is asked for the output: `auto` takes the first way that its provider has. */
export type OutputMode = 'auto' | 'tool' | 'native';

/** How the output of one model call comes: as the arguments of the finish tool, as text in a guaranteed form, or as XML. */
export type OutputWay = 'tool' | 'native' | 'xml';

/** The way of a call. `forced`: the model shall give the output now. */
export function wayOf(mode: OutputMode, capabilities: LLMCapabilities | undefined, forced: boolean): OutputWay {
  if (mode === 'native') return 'native';
  const { tools = true, toolChoice = true, responseFormat = false } = capabilities ?? {};
  if (tools && (toolChoice || !forced)) return 'tool';
  return mode === 'auto' && responseFormat ? 'native' : 'xml';
}
