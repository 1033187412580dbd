"""Documents in the manner of NEREL, made up from a few names and a template, and the files that hold them."""

import gzip
import json

import numpy as np

CONF = "[entities]\n\nCITY\t<NORM>:Wikidata\nFIRM\nPERSON\n\n[relations]\n\nBASED_IN\tArg1:FIRM, Arg2:CITY\n"
CONF += "WORKS_FOR\tArg1:PERSON, Arg2:FIRM\n\n<OVERLAP>\tArg1:<ENTITY>\n\n[events]\n"
PEOPLE = ["Анна Ильина", "Пётр Громов", "Ольга Лебедь", "Jane Miller", "John Archer"]
FIRMS = ["Завод Север", "Банк Заря", "Acme Works", "Blue Mills"]
CITIES = ["Липовск", "Заречье", "Oakville", "Stonebridge"]


def invented(number, split):
    """Return a document of two sentences as the file has it: who works for which firm, and where that is."""
    rng = np.random.default_rng(number)
    text, entities, relations = "", [], []
    for sentence in range(2):
        person, firm, city = (str(rng.choice(names)) for names in (PEOPLE, FIRMS, CITIES))
        for role, name, behind in (
            ("PERSON", person, " работает: "),
            ("FIRM", firm, ", офис в "),
            ("CITY", city, ". "),
        ):
            span = [len(text), len(text) + len(name)]
            entities.append([f"{role}{sentence}", role, [span], name])
            text += name + behind
        relations.append(["WORKS_FOR", f"PERSON{sentence}", f"FIRM{sentence}"])
        relations.append(["BASED_IN", f"FIRM{sentence}", f"CITY{sentence}"])
    return {"id": f"d{number}", "split": split, "text": text, "entities": entities, "relations": relations}


def write_folder(folder, documents, conf=CONF):
    """Write documents, or lines as they are, and the list of labels into a folder."""
    lines = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in documents]
    with gzip.open(folder / "nerel_compact.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))
    (folder / "annotation.conf").write_text(conf, encoding="utf-8")
    return folder
