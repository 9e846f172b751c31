import type { RefObject } from 'preact';
import { useLayoutEffect } from 'preact/hooks';

interface MessageFieldProps {
  readonly field: RefObject<HTMLTextAreaElement | null>;
  readonly label: string;
  readonly placeholder?: string;
  readonly text: string;
  readonly setText: (text: string) => void;
  readonly submit: () => void;
  readonly onEscape?: () => void;
}

/** A field as high as its text: Enter sends, Shift+Enter begins a line. */
export function MessageField({ field, label, placeholder, text, setText, submit, onEscape }: MessageFieldProps) {
  useLayoutEffect(() => {
    const { current } = field;
    if (!current) return;
    current.style.height = 'auto';
    current.style.height = `${current.scrollHeight + 2}px`;
  }, [text]);
  return (
    <textarea
      ref={field}
      rows={1}
      dir="auto"
      aria-label={label}
      placeholder={placeholder}
      enterkeyhint="send"
      value={text}
      onInput={({ currentTarget }) => setText(currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === 'Escape' && onEscape) {
          event.stopPropagation();
          onEscape();
        }
        if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        submit();
      }}
    />
  );
}
