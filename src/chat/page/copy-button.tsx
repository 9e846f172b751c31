import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon } from './icons.tsx';

const shownMs = 1_600;

/** Copies text, and says so for a moment. */
export function CopyButton({ text, label }: { readonly text: () => string; readonly label: string }) {
  const [state, setState] = useState<'idle' | 'copied' | 'failed'>('idle');
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    setState((await copied(text())) ? 'copied' : 'failed');
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setState('idle'), shownMs);
  };
  const words = { idle: label, copied: 'Copied', failed: 'Copying failed' }[state];
  return (
    <button type="button" class="icon-button copy" onClick={copy} title={words}>
      <Icon name={state === 'copied' ? 'check' : state === 'failed' ? 'cross' : 'copy'} />
      <span class="visually-hidden" aria-live="polite">
        {words}
      </span>
    </button>
  );
}

/** Pages over http have no clipboard, but a command. */
async function copied(text: string): Promise<boolean> {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return true;
    }
    const field = document.createElement('textarea');
    field.value = text;
    document.body.append(field);
    field.select();
    const isDone = document.execCommand('copy');
    field.remove();
    return isDone;
  } catch {
    return false;
  }
}
