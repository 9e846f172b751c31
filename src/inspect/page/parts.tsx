import type { ComponentChildren, ComponentProps } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, get } from './api.ts';
import { shownState } from './format.ts';

export function State({ state }: { readonly state: string }) {
  const { label, tone } = shownState(state);
  return <span class={`state ${tone}`}>{label}</span>;
}

export function Fault({ error }: { readonly error: unknown }) {
  if (error === undefined) return null;
  return (
    <p class="fault" role="alert">
      {error instanceof Error ? error.message : String(error)}
    </p>
  );
}

/** A button that sends no form. */
export function Button(props: ComponentProps<'button'>) {
  return <button type="button" {...props} />;
}

/** Text as it is, in a box of its own that scrolls. */
export function Code({ label, text }: { readonly label: string; readonly text: string }) {
  return (
    <section class="scrolls" tabIndex={0} aria-label={label}>
      <pre>{text}</pre>
    </section>
  );
}

/** Copies on click, and says so. */
export function Copy({ text, label }: { readonly text: () => string | Promise<string>; readonly label: string }) {
  const [said, say] = useState(label);
  const copy = async () => {
    await navigator.clipboard.writeText(await text()).then(
      () => say('Copied'),
      () => say('Not copied'),
    );
    setTimeout(() => say(label), 1_500);
  };
  return (
    <Button class="quiet" onClick={() => void copy()}>
      {said}
    </Button>
  );
}

/** What the API answers to a path, anew when `version` changes; the answer before stays until then. */
export function useApi<T>(path: string | undefined, version: unknown = 0) {
  const [answer, setAnswer] = useState<{ readonly path?: string; readonly data?: T; readonly error?: unknown }>({});
  // A new version asks again.
  useEffect(() => {
    if (path === undefined) return;
    const left = new AbortController();
    get<T>(path, left.signal).then(
      (data) => setAnswer({ path, data }),
      (error) => {
        if (left.signal.aborted) return;
        // An answer that is there is better than none while the server is away for a moment.
        setAnswer((before) =>
          before.path === path && !(error instanceof ApiError && error.status === 404)
            ? { ...before, error }
            : { path, error },
        );
      },
    );
    return () => left.abort();
  }, [path, version]);
  return answer.path === path ? answer : {};
}

/** The time, every second. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

interface DialogProps {
  readonly title: string;
  /** The button that opens it. */
  readonly label: string;
  readonly submit: string;
  readonly tone?: 'bad';
  readonly children?: ComponentChildren;
  /** What it rejects with is shown, and the dialog stays. */
  readonly onSubmit: (form: FormData) => Promise<void>;
}

/** A button that opens a form. */
export function Dialog({ title, label, submit, tone, children, onSubmit }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [error, setError] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    if (!(event.currentTarget instanceof HTMLFormElement)) return;
    setBusy(true);
    try {
      await onSubmit(new FormData(event.currentTarget));
      setError(undefined);
      dialog.current?.close();
    } catch (thrown) {
      setError(thrown);
    }
    setBusy(false);
  };
  return (
    <>
      <Button onClick={() => dialog.current?.showModal()}>{label}</Button>
      <dialog ref={dialog} aria-label={title}>
        <form onSubmit={(event) => void send(event)}>
          <h2>{title}</h2>
          {children}
          <Fault error={error} />
          <div class="buttons">
            <Button class="quiet" onClick={() => dialog.current?.close()}>
              Back
            </Button>
            <button type="submit" class={tone ?? 'main'} disabled={isBusy}>
              {submit}
            </button>
          </div>
        </form>
      </dialog>
    </>
  );
}
