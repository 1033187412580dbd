import numpy as np

import anytimebp as abp
from anytimebp.cli.main import main


def test_map_prints_the_best_state_and_writes_it(tmp_path, capsys):
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    graph.add_factor([0, 1], log_table=[[0.0, 1.0], [0.0, 0.0]])
    graph.add_factor([1, 2], log_table=[[0.0, 0.0], [2.0, 0.0]])
    model, output = tmp_path / "model.npz", tmp_path / "best.MPE"
    abp.write_model(graph, model)
    assert main(["map", str(model), "--output", str(output)]) == 0
    assert output.read_text(encoding="ascii") == "MPE\n3 0 1 0\n"
    assert "log score 3.000000; no joint state is better" in capsys.readouterr().out
    name = graph.variables[1].name
    assert main(["map", str(model), "--observe", f"{name}=0", "--output", str(output), "--method", "bp"]) == 0
    assert output.read_text(encoding="ascii").split()[3] == "0"
    assert main(["map", str(model), "--output", str(tmp_path / "best.txt")]) != 0


def test_an_impossible_model_is_said_to_be(tmp_path, capsys):
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_factor([0, 1], table=np.eye(2))
    graph.add_factor([0, 1], table=1.0 - np.eye(2))
    model = tmp_path / "model.npz"
    abp.write_model(graph, model)
    assert main(["map", str(model), "--method", "exact"]) != 0
    assert "no joint state is possible" in capsys.readouterr().err
    assert main(["map", str(model), "--method", "bp"]) != 0
    assert "no possible joint state was found" in capsys.readouterr().err
