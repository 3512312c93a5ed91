"""Defects that the tools found: what went wrong, how it was fixed, and the test that holds it."""

FUZZ, READ = "tests/test_found_by_fuzzing.py", "tests/test_reading.py"
DEFECTS: tuple[tuple[str, str, str], ...] = (
    (
        "Flipped bits in episodes and probes were read as other numbers",
        "every table carries a digest of the whole file in its footer",
        f"{READ}::test_a_flipped_bit_in_a_table_is_found",
    ),
    (
        "A digit changed in `checkpoint.json` made `resume` cut the logs at a wrong length",
        "the description carries a digest of its entries",
        f"{READ}::test_a_flipped_digit_in_a_checkpoints_description_is_found",
    ),
    (
        "A digit changed in `outcome.json` changed the answer of a study",
        "outcomes carry a digest; a damaged one is done again",
        f"{FUZZ}::test_a_flipped_digit_in_an_outcome_is_found_and_the_job_done_again",
    ),
    (
        "Flipped bits in the buffers of PPG and of stale data changed a resumed run",
        "buffers carry a digest",
        f"{FUZZ}::test_a_flipped_bit_in_a_buffer_is_found",
    ),
    (
        "Damage to the name of a digest made a table one without a digest",
        "a second entry says that there must be one",
        f"{FUZZ}::test_a_table_whose_digest_lost_its_name_is_damaged",
    ),
    (
        "Infinite, missing or negative numbers in episodes reached the rules: OverflowError, or other areas",
        "rows that can be no episodes are reported and left out",
        f"{READ}::test_rows_that_are_no_episodes_are_left_out_and_reported",
    ),
    (
        "Returns too large for their variance: OverflowError in the rule about learning",
        "the rule says that it cannot tell",
        f"{FUZZ}::test_returns_too_large_for_their_variance_are_diagnosed",
    ),
    (
        "With `metrics.jsonl` deleted and no readable checkpoint, `resume` trained from step 0 over the other records",
        "refused where the run had any later checkpoint",
        f"{FUZZ}::test_a_run_without_a_readable_checkpoint_is_not_begun_anew_over_its_records",
    ),
    (
        "Arrays of another shape in a checkpoint, with a right checksum, ended in a traceback",
        "shapes are compared before anything is used; such a checkpoint is damaged",
        f"{FUZZ}::test_a_checkpoint_with_other_shapes_is_damaged_whatever_its_checksum_says",
    ),
    (
        "`doctor` stopped at a `.zip` beside a log that is a dangling link",
        "the model is reported and left out",
        f"{FUZZ}::test_a_link_to_no_model_beside_a_log_costs_the_model_only",
    ),
    (
        "`adopt` unpacked a 4 MB archive to 4 GB of memory",
        "a member unpacks to at most 50 times the archive's size, or 16 MB",
        f"{FUZZ}::test_archives_unpack_to_no_more_than_their_size_explains",
    ),
    (
        "A `study.json` that asks for no seeds, or for 2³¹, ended in a traceback or never",
        "the number of seeds has a range",
        f"{FUZZ}::test_a_damaged_study_ends_in_one_line",
    ),
    (
        "A `study.json` without a store: KeyError",
        "its jobs are then kept in the study",
        f"{FUZZ}::test_a_study_that_names_no_store_keeps_its_jobs_itself",
    ),
    (
        "A `result.json` without runs: IndexError in `study show`",
        "what is there is shown",
        f"{FUZZ}::test_the_result_of_a_study_without_runs_is_shown",
    ),
    (
        "Outcomes without what a study needs: TypeError in `resume`",
        "one line that names the job",
        f"{FUZZ}::test_an_outcome_without_what_a_study_needs_ends_in_one_line",
    ),
    (
        "`plan --config` and `train --config` with a mapping in the place of a word: TypeError",
        "refused by the configuration, in one line",
        f"{FUZZ}::test_a_configuration_with_a_mapping_for_a_word_is_refused_in_one_line",
    ),
    (
        "YAML such as `!!int ''`: IndexError",
        "not YAML, in one line",
        f"{FUZZ}::test_a_lone_sign_in_yaml_is_a_one_line_error",
    ),
    (
        "Commands in messages were not quoted for a shell",
        "quoted",
        f"{FUZZ}::test_messages_quote_paths_as_a_shell_needs_them",
    ),
    (
        "Episodes waited in memory for the next checkpoint: 3% more memory in 200,000 iterations",
        "they are written in shards in between",
        f"{FUZZ}::test_episodes_do_not_wait_in_memory_for_a_checkpoint_that_is_far_away",
    ),
    (
        "`resume` of a run with links out of it emptied, cut or removed files outside; `eval` and `probe` wrote there",
        "refused before anything is written",
        f"{FUZZ}::test_a_resume_does_not_write_through_links_out_of_a_run",
    ),
    (
        "A sparse checkpoint of 8 GB took 8 GB of memory before its checksum was found wrong",
        "the checksum is computed in parts",
        f"{READ}::test_a_sparse_checkpoint_costs_no_memory",
    ),
    (
        "A log with 600,000 different metrics kept `doctor` busy for minutes",
        "it looks at the first 1,000 and says so",
        f"{FUZZ}::test_very_many_different_metrics_cost_no_more_than_some",
    ),
    (
        "Temporary files stayed after a full disk, and beside the files of a run after a kill",
        "removed when a write fails, and at a resume",
        f"{FUZZ}::test_a_full_disk_leaves_no_temporary_file",
    ),
    (
        "`view` answered requests of pages that other programs of this machine serve",
        "the origin must be the page itself",
        "tests/test_view.py::test_requests_of_other_pages_are_refused",
    ),
    (
        "At the end of a run of a million iterations, `train` read the whole log for its last row: twice the memory",
        "the last row is read from the end of the log",
        f"{READ}::test_the_last_row_is_that_of_reading_all_rows",
    ),
    (
        "A study of 5,000 jobs took minutes: after each job all others were asked whether what they need had failed",
        "asked only once a job has failed; 15 s",
        "tests/studies/test_executor.py::test_a_job_that_fails_takes_nothing_with_it_but_what_needs_it",
    ),
)
