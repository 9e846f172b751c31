import type { Context } from '@opentelemetry/api';
import { checkChangedMessages } from '../contracts/check-messages.ts';
import { settingsFlaw } from '../contracts/check-settings.ts';
import type { IterationChange, IterationView } from '../contracts/extension.ts';
import type { Message } from '../contracts/messages.ts';
import type { CallSettings } from '../contracts/provider.ts';
import { shownValue } from '../contracts/shown-value.ts';
import { askHooks } from '../hooks/ask-hooks.ts';
import { DraftPlace } from '../hooks/hook-context.ts';
import { recordOfChange, usageRecord } from '../hooks/record-of-change.ts';
import { callSettings, copySettings } from '../journal/call-settings.ts';
import type { LlmStart } from '../journal/records.ts';
import { CommitDraft } from '../journal/signals.ts';
import type { LoopState } from '../journal/state.ts';
import type { Offer } from '../tool-call/tool-set.ts';
import type { TurnDeps } from '../turn/turn-deps.ts';
import { instructionsOf, pairedByHook, withoutInstructions } from './view.ts';

/** What one model call sees, as the extensions left it. */
export interface PreparedView {
  readonly messages: readonly Message[];
  readonly systemPrompt: string | undefined;
  readonly offer: Offer;
  readonly settings: CallSettings;
}

/** A model call to be made. `view`: where extensions made it; else that of the state. */
export interface ModelCall {
  readonly start: LlmStart;
  readonly view?: PreparedView;
}

/** A view, and what was recorded while it was made. */
export interface Preparation {
  readonly view: PreparedView;
  readonly draft: CommitDraft;
}

/** Asks the extensions what the next model call sees. At once where all of them answer at once. Throws or rejects as `askHooks`. */
export function prepareView(
  deps: TurnDeps,
  traceContext: Context,
): (state: LoopState) => Preparation | Promise<Preparation> {
  return (state) => {
    const draft = new CommitDraft(deps, state);
    let view: PreparedView = firstView(deps, state);
    let shown = shownView(view);
    const asked = askHooks(deps, {
      hook: 'prepareIteration',
      place: new DraftPlace(draft, traceContext),
      about: () => shown,
      take: (change, { name }, { childUsage: used }) => {
        if (change.view) {
          view = changedView(deps, view, { change: change.view, extension: name });
          shown = shownView(view);
        }
        const record = recordOfChange(kept(change), {
          deps,
          state: draft.after,
          name,
          hook: 'prepareIteration',
          used,
        });
        if (record) draft.add(record);
        return !change.finish;
      },
      count: (used, { name }) => draft.add(usageRecord(used, { name, hook: 'prepareIteration' })),
    });
    return asked instanceof Promise ? asked.then(() => ({ view, draft })) : { view, draft };
  };
}

function shownView({ messages, systemPrompt, offer, settings }: PreparedView): IterationView {
  return { messages, systemPrompt, tools: offer.offered, settings };
}

function kept({ finish, usage, usageBy, data, events }: IterationChange): Omit<IterationChange, 'view' | 'fail'> {
  return {
    ...(finish && { finish }),
    ...(usage && { usage }),
    ...(usageBy && { usageBy }),
    ...(data === undefined ? {} : { data }),
    ...(events && { events }),
  };
}

function firstView(deps: TurnDeps, state: LoopState): PreparedView {
  const { history, changes } = state;
  return {
    messages: withoutInstructions(history),
    systemPrompt: instructionsOf(history, changes.settings.systemPrompt ?? deps.systemPrompt),
    offer: deps.tools.after(changes.tools),
    settings: callSettings(deps, state),
  };
}

function changedView(
  deps: TurnDeps,
  before: PreparedView,
  { change, extension }: { readonly change: NonNullable<IterationChange['view']>; readonly extension: string },
): PreparedView {
  if (typeof change !== 'object') throw new TypeError(`its view must be an object, not ${shownValue(change)}`);
  const { messages, systemPrompt, tools, settings } = change;
  if (messages) checkChangedMessages(messages, before.messages);
  if (typeof systemPrompt !== 'string' && systemPrompt !== null && systemPrompt !== undefined) {
    throw new TypeError(`systemPrompt must be a string or null, not ${shownValue(systemPrompt)}`);
  }
  return {
    messages: messages ? pairedByHook(deps, messages, { extension, hook: 'prepareIteration' }) : before.messages,
    systemPrompt: systemPrompt === undefined ? before.systemPrompt : (systemPrompt ?? undefined),
    offer: tools ? deps.tools.only(knownNames(deps, tools)) : before.offer,
    settings: settings ? changedSettings(before.settings, settings) : before.settings,
  };
}

function knownNames({ tools }: TurnDeps, names: readonly string[]): readonly string[] {
  for (const name of names) {
    if (tools.byName.has(name)) continue;
    throw new TypeError(`there is no tool "${name}"; the turn knows: ${[...tools.byName.keys()].join(', ') || 'none'}`);
  }
  return names;
}

function changedSettings(before: CallSettings, settings: CallSettings): CallSettings {
  const flaw = settingsFlaw(settings);
  if (flaw) throw new TypeError(flaw.join('; '));
  const changed = { ...before };
  copySettings(changed, settings);
  return changed;
}
