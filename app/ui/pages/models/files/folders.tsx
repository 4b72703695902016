// The user's own folders of models.

import { useState } from "preact/hooks";
import { Button, ErrorNote, Form, Panel, Tag, TextInput } from "../../../shared/components";
import { useModels } from "../state";
import { words } from "../words";

export function Folders() {
  const { table, ask, refresh } = useModels();
  const [folder, setFolder] = useState("");
  const [error, setError] = useState("");
  const [known, setKnown] = useState<string[] | null>(null); // before the last one was added
  const change = async (name: string, path: string) => {
    const answer = await ask(name, { folder: path });
    setError(answer?.error ?? "");
    await refresh();
    return answer && !answer.error;
  };
  const add = async () => {
    setKnown(table?.folders.map(({ path }) => path) ?? []);
    if (await change("add_folder", folder)) setFolder("");
  };
  const newest = known && table?.folders.find(({ path }) => !known.includes(path));
  return (
    <Panel title={words.folders} class="places">
      <p class="ft-hint">{words.foldersInfo}</p>
      <Form class="add-place line-form ft-row" onSubmit={add}>
        <TextInput
          label={words.addFolder}
          name="place"
          value={folder}
          onChange={setFolder}
          placeholder={words.addFolderHint}
        />
        <Button type="submit">{words.add}</Button>
      </Form>
      <ErrorNote text={error} />
      <div class="ft-hint" role="status">
        {newest && (table?.looking ? words.looking : words.foundIn(newest.models, newest.path))}
        {newest && !table?.looking && newest.unusable.length > 0 && (
          <>
            {" "}
            {words.unusableIn(newest.unusable.length)}:
            <ul>
              {newest.unusable.map((each) => (
                <li key={each.name}>
                  <b>{each.name}</b>: {each.reason}
                </li>
              ))}
            </ul>
          </>
        )}
      </div>
      <ul class="lines own-folders">
        {table?.folders.map(({ path, there, models, unusable }) => (
          <li key={path}>
            <span>
              <span class="source ft-fine">{path}</span>{" "}
              <Tag look={there ? "" : "warn"} text={there ? words.modelsIn(models) : words.missing} />{" "}
              {unusable.length > 0 && <Tag look="warn" text={words.unusableIn(unusable.length)} />}
            </span>
            <Button kind="link" aria-label={words.removeFolder(path)} onClick={() => change("remove_folder", path)}>
              {words.takeAway}
            </Button>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
