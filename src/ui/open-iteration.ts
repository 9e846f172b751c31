import type { ShownStep } from './shown-steps.ts';

/** Text or reasoning of the open iteration. */
export interface OpenText {
  readonly id: string;
  readonly of: string;
  text: string;
  isOpen: boolean;
}

/** What is shown of a call of the open iteration, in order. */
export interface ShownCall {
  readonly id: string;
  readonly name: string;
  isReady: boolean;
  readonly steps: ShownStep[];
}

/** Keeps a step of a call. */
export function add(call: ShownCall, step: ShownStep): ShownStep {
  call.steps.push(step);
  return step;
}

/** The steps that show it as it stands. */
export function said(type: 'text' | 'reasoning', { id, of, text, isOpen }: OpenText): readonly ShownStep[] {
  const piece: ShownStep = { type, id, of, text };
  return isOpen ? [piece] : [piece, { type: `${type}-end`, id, of }];
}

export function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((each, index) => each === b[index]);
}
