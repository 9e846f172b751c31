import type OpenAI from 'openai';
import { missingPackage } from '../../core/contracts/index.ts';

type OpenAIPackage = { readonly OpenAI: typeof OpenAI };

let load: () => Promise<OpenAIPackage> = () => import('openai');

/** Loads the class of the client. Errors: `MISSING_PACKAGE`. */
export async function loadOpenAI(): Promise<typeof OpenAI> {
  try {
    return (await load()).OpenAI;
  } catch (cause) {
    throw missingPackage('openai', cause);
  }
}

/** From now on this process uses another copy of the package: the command brings its own. */
export function useOpenAI(bundled: () => Promise<OpenAIPackage>): void {
  load = bundled;
}
